#include "data/source/length_policy.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace ftune {
namespace {

// Pieces of at most `length` tokens that together predict each token but the first exactly once.
std::vector<Sample> Split(const Sample& sample, int64_t length) {
  std::vector<Sample> pieces;
  for (int64_t begin = 0;; begin += length - 1) {
    const int64_t end = std::min(begin + length, sample.size());
    pieces.push_back({{sample.ids.begin() + begin, sample.ids.begin() + end},
                      {sample.trained.begin() + begin, sample.trained.begin() + end}});
    if (end == sample.size()) return pieces;
  }
}

void Truncate(Sample& sample, const LengthPolicy& policy) {
  const int64_t excess = sample.size() - policy.sequence_len;
  const bool right = policy.side == TruncationSide::kRight;
  const int64_t first = right ? policy.sequence_len : policy.bos && sample.ids[0] == *policy.bos ? 1 : 0;
  const auto cut = [&](auto& values) {
    values.erase(values.begin() + first, values.begin() + first + excess);
  };
  cut(sample.ids);
  cut(sample.trained);
}

FittedSample Dropped(DropReason reason, int64_t tokens) {
  FittedSample fitted;
  fitted.dropped.push_back({reason, tokens});
  return fitted;
}

FittedSample Kept(Sample sample, bool truncated) {
  FittedSample fitted{.truncated = truncated};
  fitted.samples.push_back(std::move(sample));
  return fitted;
}

}  // namespace

std::string_view DropReasonName(DropReason reason) {
  switch (reason) {
    case DropReason::kTooLong:
      return "too_long";
    case DropReason::kNothingTrained:
      return "nothing_trained";
    case DropReason::kAnswerTruncated:
      return "answer_truncated";
  }
  return "";
}

int64_t TokensBeforeCut(const Sample& sample, const LengthPolicy& policy) {
  const bool cuts = policy.excess == ExcessTokens::kTruncate && policy.side == TruncationSide::kRight;
  return cuts ? std::min(sample.size(), policy.sequence_len) : sample.size();
}

absl::StatusOr<FittedSample> FitLength(Sample sample, RowFormat format, const LengthPolicy& policy,
                                       const RowPlace& place) {
  const int64_t tokens = sample.size();
  if (sample.trained_tokens() == 0) return Dropped(DropReason::kNothingTrained, tokens);
  if (sample.size() <= policy.sequence_len) return Kept(std::move(sample), /*truncated=*/false);
  ExcessTokens excess = policy.excess;
  if (excess == ExcessTokens::kAuto) {
    excess = format == RowFormat::kText ? ExcessTokens::kSplit : ExcessTokens::kDrop;
  }
  switch (excess) {
    case ExcessTokens::kError:
      return RowError(place, {.found = StrCat(sample.size(), " tokens"),
                              .expected = StrCat("at most data.sequence_len, ", policy.sequence_len),
                              .hint = "raise it, or choose another data.excess_length_strategy"});
    case ExcessTokens::kSplit: {
      FittedSample fitted{.split = true};
      for (Sample& piece : Split(sample, policy.sequence_len)) {
        if (piece.trained_tokens() > 0) {
          fitted.samples.push_back(std::move(piece));
        } else {
          fitted.dropped.push_back({DropReason::kNothingTrained, piece.size()});
        }
      }
      return fitted;
    }
    case ExcessTokens::kTruncate:
      Truncate(sample, policy);
      if (sample.trained_tokens() == 0) {
        FittedSample fitted = Dropped(DropReason::kAnswerTruncated, tokens);
        fitted.truncated = true;
        return fitted;
      }
      return Kept(std::move(sample), /*truncated=*/true);
    default:
      return Dropped(DropReason::kTooLong, tokens);
  }
}

}  // namespace ftune
