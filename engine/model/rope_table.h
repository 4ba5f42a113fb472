// Cosines and sines of rotary positions.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/model/config.h"

namespace ftune {

// Where a text's length decides how its positions are rotated. It is the text's own length: neither packing
// nor the batch changes what a sample computes.
struct PositionPlan {
  // A token uses the row of its position in the model's table, or, in texts longer than `long_after`, one
  // further on by `long_offset` (longrope).
  int64_t long_after = 0;  // tokens; 0: there is one kind of row only
  int64_t long_offset = 0;
  // Each length has frequencies of its own (dynamic): a batch brings its own table.
  bool per_text = false;
  RopeConfig rope;
  int64_t rotary_dim = 0;

  int64_t OffsetFor(int64_t text_length) const {
    return long_after > 0 && text_length > long_after ? long_offset : 0;
  }
};

// Angles per position, one for each of `rotary_dim` / 2 pairs, for a text of `length` tokens. Formulas:
// transformers' modeling_rope_utils (whose dynamic scaling goes by the longest text seen so far; here the
// order of texts does not matter).
std::vector<double> RopeFrequencies(const RopeConfig& config, int64_t rotary_dim, int64_t length);

// Rows [0, length): the positions' rotary_dim / 2 cosines and as many sines, each times attention_factor.
// With longrope, rows of long texts follow those of short ones.
Tensor MakeRopeTable(Backend& backend, Stream stream, const RopeConfig& config, int64_t rotary_dim,
                     int64_t length);
// How to use it.
PositionPlan PlanPositions(const RopeConfig& config, int64_t rotary_dim, int64_t length);

// Row for row, the cosines and sines of texts that lie side by side: of positions [first, first + count) of a
// text of `length` tokens. For PositionPlan::per_text.
struct TextPositions {
  int64_t first = 0;
  int64_t count = 0;
  int64_t length = 0;
};
Tensor MakeTextTable(Backend& backend, Stream stream, const PositionPlan& plan,
                     const std::vector<TextPositions>& texts, int64_t rows);

}  // namespace ftune
