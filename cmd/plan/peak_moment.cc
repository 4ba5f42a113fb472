#include "cmd/plan/peak_moment.h"

#include "base/strings.h"

namespace ftune {

void PeakMoment::Look() {
  if (ledger_.peak().total() <= peak_.total()) return;
  peak_ = ledger_.peak();
  at_peak_ = open_;
}

void PeakMoment::OnBegin(int, std::string_view name, int64_t number) {
  Look();
  open_.push_back(number < 0 ? std::string(name) : StrCat(name, " ", number));
}

void PeakMoment::OnEnd(int) {
  Look();
  open_.pop_back();
}

std::string PeakMoment::Describe() const {
  return at_peak_.empty() ? "between phases" : StrJoin(at_peak_, ", ");
}

}  // namespace ftune
