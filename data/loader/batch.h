// What a step trains on: packs of fixed token capacity, each holding whole samples side by side.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ftune {

inline constexpr int32_t kIgnoreLabel = -100;

// A half-open range of a batch's tokens that attend only to one another.
struct Segment {
  int32_t begin = 0;
  int32_t length = 0;
  bool operator==(const Segment&) const = default;
};

// `packs` × `capacity` tokens, flattened pack by pack. The shape depends on the capacity only; segments are
// data.
struct Batch {
  int64_t packs = 0;
  int64_t capacity = 0;
  std::vector<int32_t> ids;        // [packs * capacity], unfilled tail: 0
  std::vector<int32_t> positions;  // [packs * capacity], restart at 0 in each segment
  std::vector<int32_t>
      labels;  // [packs * capacity], the next token of the same sample, kIgnoreLabel if not trained
  std::vector<Segment>
      segments;             // over the flattened tokens, in order; an unfilled tail is a segment of its own
  int64_t used_tokens = 0;  // without the tails
  int64_t trained_tokens = 0;  // labels that are not kIgnoreLabel
  int64_t first_token = 0;     // global index, within the step, of token 0 of this batch (keys dropout)

  int64_t tokens() const { return packs * capacity; }
  // Whether the loss reads any of its tokens: where not, nothing needs to be attended to.
  bool Trains(const Segment& segment) const {
    const auto begin = labels.begin() + segment.begin;
    return std::any_of(begin, begin + segment.length, [](int32_t label) { return label != kIgnoreLabel; });
  }
};

}  // namespace ftune
