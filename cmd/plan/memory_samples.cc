#include "cmd/plan/memory_samples.h"

#include <utility>

namespace ftune {
namespace {

constexpr size_t kMostSamples = 4096;  // of what is taken; twice as many while they are added

}  // namespace

void MemorySamples::Add(double seconds, const MemoryUse& use) {
  if (samples_.empty() || samples_.back().seconds < seconds) {
    if (samples_.size() >= 2 * kMostSamples) samples_ = Thinned(std::move(samples_), kMostSamples);
    samples_.push_back({seconds, use});
    two_of_one_ = false;
    return;
  }
  if (two_of_one_) {
    MemorySample& highest = samples_[samples_.size() - 2];
    if (use.total() > highest.use.total()) {
      highest.use = use;
      samples_.pop_back();
      two_of_one_ = false;
    } else {
      samples_.back().use = use;
    }
    return;
  }
  if (use.total() > samples_.back().use.total()) {
    samples_.back().use = use;
  } else {
    samples_.push_back({seconds, use});
    two_of_one_ = true;
  }
}

std::vector<MemorySample> MemorySamples::Take() {
  two_of_one_ = false;
  return Thinned(std::exchange(samples_, {}), kMostSamples);
}

std::vector<MemorySample> Thinned(std::vector<MemorySample> samples, size_t most) {
  while (samples.size() > most) {
    size_t kept = 0;
    for (size_t i = 0; i < samples.size(); i += 2) {
      MemorySample sample = samples[i];
      if (i + 1 < samples.size() && samples[i + 1].use.total() > sample.use.total()) {
        sample.use = samples[i + 1].use;
      }
      samples[kept++] = sample;
    }
    samples.resize(kept);
  }
  return samples;
}

}  // namespace ftune
