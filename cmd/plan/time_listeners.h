// Several who hear of the same.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "base/timeline.h"

namespace ftune {

class TimeListeners final : public TimeListener {
 public:
  // They outlive this.
  explicit TimeListeners(std::vector<TimeListener*> listeners) : listeners_(std::move(listeners)) {}

  void OnBegin(int lane, std::string_view name, int64_t number) override {
    for (TimeListener* listener : listeners_) listener->OnBegin(lane, name, number);
  }
  void OnEnd(int lane) override {
    for (TimeListener* listener : listeners_) listener->OnEnd(lane);
  }

 private:
  std::vector<TimeListener*> listeners_;
};

}  // namespace ftune
