// Tokenised samples, in memory or in mapped files, with what is to be known of each without reading its
// tokens.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "data/sample.h"
#include "data/store/dropped_row.h"

namespace ftune {

// A token and whether the model learns to predict it: the id in the low 31 bits, the flag in the highest.
struct StoredToken {
  uint32_t word = 0;

  static StoredToken Make(int32_t id, bool trained) {
    return {static_cast<uint32_t>(id) | (trained ? kTrained : 0u)};
  }
  int32_t id() const { return static_cast<int32_t>(word & ~kTrained); }
  bool trained() const { return (word & kTrained) != 0; }

  static constexpr uint32_t kTrained = 1u << 31;
};

// What is known of a sample.
struct SampleInfo {
  int64_t length = 0;          // tokens
  int64_t trained_tokens = 0;  // tokens that count in the loss: the first of a sample never does
  int32_t entry = 0;           // which of the data section's entries it comes from
  int64_t row = 0;             // which row, counted over all entries, dropped rows included
  uint64_t row_hash = 0;       // HashRow, of what the row says alone: decides on which side of a split it is
};

// Thread-safe. Samples stand in the order of entries, rows and pieces of rows.
class TokenStore {
 public:
  virtual ~TokenStore() = default;
  virtual int64_t size() const = 0;  // samples
  virtual SampleInfo info(int64_t sample) const = 0;
  virtual std::span<const StoredToken> tokens(int64_t sample) const = 0;
  // The rows that were dropped or cut, in order.
  virtual absl::Status VisitDropped(const DroppedVisitor& visit) const = 0;
};

// A copy of its tokens.
Sample CopySample(std::span<const StoredToken> tokens);

}  // namespace ftune
