#include "cmd/plan/peak_moment.h"

#include <utility>

namespace ftune {

void PeakMoment::Look() {
  if (ledger_.peak().total() <= peak_.total()) return;
  peak_ = ledger_.peak();
  at_peak_ = open_;
}

void PeakMoment::OnBegin(int, std::string_view name, int64_t number) {
  Look();
  open_ = std::make_shared<const OpenScope>(
      OpenScope{.name = std::string(name), .first = number, .last = number, .outer = std::move(open_)});
}

void PeakMoment::OnEnd(int) {
  Look();
  open_ = open_->outer;
}

}  // namespace ftune
