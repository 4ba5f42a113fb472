// What an engine did when it needed most memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/timeline.h"
#include "engine/tensor/ledger.h"

namespace ftune {

// Hears of what begins and ends, in one thread, and looks at the ledger between.
class PeakMoment final : public TimeListener {
 public:
  explicit PeakMoment(const Ledger& ledger) : ledger_(ledger) {}

  void OnBegin(int lane, std::string_view name, int64_t number) override;
  void OnEnd(int lane) override;

  const MemoryUse& peak() const { return peak_; }  // so far, whatever peaks the ledger was told to forget
  // "backward 3, decoder 12"; what has no name is "between phases".
  std::string Describe() const;

 private:
  void Look();

  const Ledger& ledger_;
  MemoryUse peak_;
  std::vector<std::string> open_;  // what has begun and not ended, from the outermost
  std::vector<std::string> at_peak_;
};

}  // namespace ftune
