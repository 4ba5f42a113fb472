// Packs as lists of samples, in two flat arrays: four bytes a sample and four a pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ftune {

class PackList {
 public:
  int64_t size() const { return static_cast<int64_t>(begins_.size()) - 1; }
  int64_t samples() const { return static_cast<int64_t>(samples_.size()); }
  // The samples of a pack, in the order they stand in it.
  std::span<const uint32_t> operator[](int64_t pack) const {
    const auto i = static_cast<size_t>(pack);
    return std::span(samples_).subspan(begins_[i], begins_[i + 1] - begins_[i]);
  }

  void Reserve(int64_t samples) { samples_.reserve(static_cast<size_t>(samples)); }
  // Adds a sample to the pack that is being made; ClosePack ends that.
  void AddSample(uint32_t sample) { samples_.push_back(sample); }
  void ClosePack() { begins_.push_back(static_cast<uint32_t>(samples_.size())); }

  bool operator==(const PackList&) const = default;

 private:
  std::vector<uint32_t> samples_;
  std::vector<uint32_t> begins_ = {0};  // where each pack begins, and the end of the last
};

}  // namespace ftune
