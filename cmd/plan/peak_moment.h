// What an engine did when it needed most memory.
#pragma once

#include <string>
#include <string_view>

#include "base/timeline.h"
#include "cmd/plan/open_scope.h"
#include "engine/tensor/ledger.h"

namespace ftune {

// Hears of what begins and ends, in one thread, and looks at the ledger between.
class PeakMoment final : public TimeListener {
 public:
  explicit PeakMoment(const Ledger& ledger) : ledger_(ledger) {}

  void OnBegin(int lane, std::string_view name, int64_t number) override;
  void OnEnd(int lane) override;

  const MemoryUse& peak() const { return peak_; }  // so far, whatever peaks the ledger was told to forget
  std::string Describe() const { return ftune::Describe(at_peak_); }
  const OpenScopes& open() const { return open_; }  // now

 private:
  void Look();

  const Ledger& ledger_;
  MemoryUse peak_;
  OpenScopes open_;
  OpenScopes at_peak_;
};

}  // namespace ftune
