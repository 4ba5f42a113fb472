// Cosines and sines of rotary positions.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/model/config.h"

namespace ftune {

// Which row of the tables a token uses: that of its position, or, in texts longer than `long_after`, one
// further on by `long_offset`. Whether a text is long is its own length's matter: neither packing nor the
// batch changes what a sample computes.
struct PositionRows {
  int64_t long_after = 0;  // tokens; 0: there is one kind of row only
  int64_t long_offset = 0;

  int64_t OffsetFor(int64_t text_length) const {
    return long_after > 0 && text_length > long_after ? long_offset : 0;
  }
};

// Angles per position, one for each of `rotary_dim` / 2 pairs, for texts of up to `length` tokens;
// `long_text` chooses longrope's factors. transformers' dynamic scaling goes by the longest text seen so far;
// here it goes by `length`, so that the order of texts does not matter. Formulas: transformers'
// modeling_rope_utils.
std::vector<double> RopeFrequencies(const RopeConfig& config, int64_t rotary_dim, int64_t length,
                                    bool long_text);

// Rows [0, length): the positions' rotary_dim / 2 cosines and as many sines, each times attention_factor.
// With longrope, rows of long texts follow those of short ones.
Tensor MakeRopeTable(Backend& backend, Stream stream, const RopeConfig& config, int64_t rotary_dim,
                     int64_t length);
// The rows to use with MakeRopeTable's table.
PositionRows RopeRows(const RopeConfig& config, int64_t length);

}  // namespace ftune
