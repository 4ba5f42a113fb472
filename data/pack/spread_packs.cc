#include "data/pack/spread_packs.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ftune {
namespace {

constexpr size_t kChoice = 512;  // packs; the cost of an epoch is so many times their number

class Spreader {
 public:
  Spreader(const PackList& packs, std::span<const uint32_t> ends)
      : packs_(packs), groups_(ends.size()), counts_(groups_ * static_cast<size_t>(packs.size())) {
    totals_.resize(groups_);
    for (int64_t p = 0; p < packs.size(); ++p) {
      for (const uint32_t sample : packs[p]) {
        const auto group =
            static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), sample) - ends.begin());
        ++counts_[static_cast<size_t>(p) * groups_ + group];
        ++totals_[group];
      }
    }
    taken_.resize(groups_);
  }

  PackList Spread() {
    PackList list;
    list.Reserve(packs_.samples());
    std::vector<int64_t> choice;
    for (int64_t next = 0; next < packs_.size() || !choice.empty();) {
      while (choice.size() < kChoice && next < packs_.size()) choice.push_back(next++);
      uneven_.clear();
      for (const int64_t pack : choice) uneven_.push_back(UnevenAfter(pack));
      const auto best = choice.begin() + (std::min_element(uneven_.begin(), uneven_.end()) - uneven_.begin());
      Take(*best);
      for (const uint32_t sample : packs_[*best]) list.AddSample(sample);
      list.ClosePack();
      choice.erase(best);  // the others keep their order
    }
    return list;
  }

 private:
  const uint32_t* CountsOf(int64_t pack) const { return &counts_[static_cast<size_t>(pack) * groups_]; }

  void Take(int64_t pack) {
    for (size_t g = 0; g < groups_; ++g) taken_[g] += CountsOf(pack)[g];
    samples_ += packs_[pack].size();
  }

  // How far the groups' shares are from that of all samples, were this pack the next.
  double UnevenAfter(int64_t pack) const {
    const uint32_t* counts = CountsOf(pack);
    const double all =
        static_cast<double>(samples_ + packs_[pack].size()) / static_cast<double>(packs_.samples());
    double uneven = 0;
    for (size_t g = 0; g < groups_; ++g) {
      if (totals_[g] == 0) continue;
      uneven += std::abs(static_cast<double>(taken_[g] + counts[g]) / static_cast<double>(totals_[g]) - all);
    }
    return uneven;
  }

  const PackList& packs_;
  size_t groups_;
  std::vector<uint32_t> counts_;  // [pack][group]
  std::vector<uint64_t> totals_, taken_;
  uint64_t samples_ = 0;        // taken
  std::vector<double> uneven_;  // after each pack that may be chosen
};

}  // namespace

PackList SpreadPacks(const PackList& packs, std::span<const uint32_t> ends) {
  return Spreader(packs, ends).Spread();
}

}  // namespace ftune
