#include "cmd/plan/memory_track.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace ftune {
namespace {

// The names of marks, from the innermost.
std::vector<std::string> MarkNames(const OpenScopes& scopes) {
  std::vector<std::string> names;
  for (const OpenScope* scope = scopes.get(); scope != nullptr; scope = scope->outer.get()) {
    names.push_back(scope->name);
  }
  return names;
}

// Of two moments that go by the same names: both.
OpenScopes BothMoments(const OpenScopes& one, const OpenScopes& other) {
  if (one == other) return one;
  return std::make_shared<const OpenScope>(OpenScope{.name = one->name,
                                                     .first = std::min(one->first, other->first),
                                                     .last = std::max(one->last, other->last),
                                                     .outer = BothMoments(one->outer, other->outer)});
}

}  // namespace

MemoryTrack::MemoryTrack(Ledger& ledger, const PeakMoment& moment, std::function<double()> now)
    : ledger_(ledger), moment_(moment), now_(std::move(now)) {
  ledger_.set_listener(this);
}

void MemoryTrack::OnAllocated(int64_t number, Category category, int64_t bytes) {
  alive_.insert({number, {category, bytes, moment_.open()}});
  if (ledger_.current().total() > peak_) {
    peak_ = ledger_.current().total();
    last_at_peak_ = number;
    freed_since_.clear();
  }
  Sample();
}

void MemoryTrack::OnFreed(int64_t number) {
  auto freed = alive_.extract(number);
  if (number <= last_at_peak_) freed_since_.push_back(std::move(freed.mapped()));
  Sample();
}

void MemoryTrack::Name(int64_t number, OpenScopes what) { alive_.at(number).made_in = std::move(what); }

void MemoryTrack::BeginStep() {
  samples_ = MemorySamples();
  step_begin_ = now_();
  Sample();
}

void MemoryTrack::Sample() { samples_.Add(now_() - step_begin_, ledger_.current()); }

std::vector<LiveTensors> MemoryTrack::AtPeak() const {
  struct Group {
    int64_t count = 0;
    OpenScopes made_in;
  };
  using Key = std::tuple<Category, int64_t, std::vector<std::string>>;
  std::map<Key, Group> groups;
  const auto add = [&](const Allocation& allocation) {
    Group& group = groups[{allocation.category, allocation.bytes, MarkNames(allocation.made_in)}];
    group.made_in = group.count == 0 ? allocation.made_in : BothMoments(group.made_in, allocation.made_in);
    ++group.count;
  };
  for (const auto& [number, allocation] : alive_) {
    if (number <= last_at_peak_) add(allocation);
  }
  for (const Allocation& allocation : freed_since_) add(allocation);

  std::vector<LiveTensors> at_peak;
  for (const auto& [key, group] : groups) {
    const auto& [category, bytes, names] = key;
    at_peak.push_back(
        {.category = category, .bytes = bytes, .count = group.count, .made_in = Describe(group.made_in)});
  }
  std::stable_sort(at_peak.begin(), at_peak.end(),
                   [](const LiveTensors& a, const LiveTensors& b) { return a.total() > b.total(); });
  return at_peak;
}

}  // namespace ftune
