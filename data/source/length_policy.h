// What becomes of a sample that is longer than a pack, or that has nothing to learn.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/sample.h"
#include "data/source/row.h"

namespace ftune {

// What happens to a row of more than sequence_len tokens.
enum class ExcessTokens {
  kAuto,      // text: split; other formats: drop
  kTruncate,  // one of its ends is cut off
  kSplit,  // into samples of sequence_len; each begins with the last token of the one before, so that every
           // token but the row's first is predicted exactly once
  kDrop,
  kError,
};

// The end that truncation cuts off.
enum class TruncationSide {
  kRight,  // the end
  kLeft,   // the begin; a BOS there stays
};

struct LengthPolicy {
  int64_t sequence_len = 2048;  // ≥ 2
  ExcessTokens excess = ExcessTokens::kAuto;
  TruncationSide side = TruncationSide::kRight;
  std::optional<int32_t> bos;  // the tokenizer's
};

enum class DropReason {
  kTooLong,          // more than sequence_len tokens
  kNothingTrained,   // no token to learn from
  kAnswerTruncated,  // no token to learn from is left after truncation
};
std::string_view DropReasonName(DropReason reason);  // too_long, nothing_trained, answer_truncated

struct DroppedSample {
  DropReason reason = DropReason::kTooLong;
  int64_t tokens = 0;

  bool operator==(const DroppedSample&) const = default;
};

struct FittedSample {
  std::vector<Sample> samples;         // each with at least one trained token
  std::vector<DroppedSample> dropped;  // the whole, or pieces of a split; never empty where `samples` is
  bool truncated = false;
  bool split = false;
};

// How many of a sample's first tokens truncation on the right leaves: all, where it does not happen.
int64_t TokensBeforeCut(const Sample& sample, const LengthPolicy& policy);

// `format` is that of the sample's row. An error, which has the row's place, is that of kError.
absl::StatusOr<FittedSample> FitLength(Sample sample, RowFormat format, const LengthPolicy& policy,
                                       const RowPlace& place);

}  // namespace ftune
