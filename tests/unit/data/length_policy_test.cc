#include "data/source/length_policy.h"

#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include "base/error.h"

namespace ftune {
namespace {

// Tokens 100, 101, …, of which those from `first_trained` on are learned.
Sample Numbers(int64_t count, int64_t first_trained) {
  Sample sample;
  for (int64_t i = 0; i < count; ++i) {
    sample.ids.push_back(static_cast<int32_t>(100 + i));
    sample.trained.push_back(i >= first_trained);
  }
  return sample;
}

FittedSample Fit(const Sample& sample, const LengthPolicy& policy, RowFormat format = RowFormat::kMessages) {
  auto fitted = FitLength(sample, format, policy, {"f", 3});
  REQUIRE(fitted.ok());
  return *std::move(fitted);
}

std::vector<DroppedSample> Drops(DropReason reason, int64_t tokens) { return {{reason, tokens}}; }

TEST_CASE("truncation cuts off one end") {
  const Sample sample = Numbers(10, 5);
  const FittedSample right = Fit(sample, {.sequence_len = 6, .excess = ExcessTokens::kTruncate});
  CHECK(right.truncated);
  CHECK(right.samples.at(0).ids == std::vector<int32_t>{100, 101, 102, 103, 104, 105});
  CHECK(right.samples[0].trained == std::vector<uint8_t>{0, 0, 0, 0, 0, 1});

  LengthPolicy left = {.sequence_len = 6, .excess = ExcessTokens::kTruncate, .side = TruncationSide::kLeft};
  CHECK(Fit(sample, left).samples.at(0).ids == std::vector<int32_t>{104, 105, 106, 107, 108, 109});
  CHECK(Fit(sample, left).samples.at(0).trained == std::vector<uint8_t>{0, 1, 1, 1, 1, 1});
  left.bos = 100;
  CHECK(Fit(sample, left).samples.at(0).ids == std::vector<int32_t>{100, 105, 106, 107, 108, 109});
  CHECK(Fit(sample, left).samples.at(0).trained == std::vector<uint8_t>{0, 1, 1, 1, 1, 1});

  const FittedSample prompt_only = Fit(sample, {.sequence_len = 5, .excess = ExcessTokens::kTruncate});
  CHECK(prompt_only.samples.empty());
  CHECK(prompt_only.dropped == Drops(DropReason::kAnswerTruncated, 10));
  // What fits is left alone, on either side.
  CHECK_FALSE(Fit(Numbers(6, 5), left).truncated);
  CHECK(Fit(Numbers(6, 5), left).samples.at(0).size() == 6);
}

TEST_CASE(
    "a split predicts every token but the first exactly once; pieces without any are left out and told") {
  for (int64_t limit = 2; limit <= 12; ++limit) {
    const FittedSample fitted = Fit(Numbers(11, 0), {.sequence_len = limit, .excess = ExcessTokens::kSplit});
    std::vector<int32_t> predicted;
    for (const Sample& piece : fitted.samples) {
      CHECK(piece.size() <= limit);
      predicted.insert(predicted.end(), piece.ids.begin() + 1, piece.ids.end());
    }
    std::vector<int32_t> expected(10);
    std::iota(expected.begin(), expected.end(), 101);
    CHECK(predicted == expected);
    CHECK(fitted.split == (limit < 11));
    CHECK(fitted.dropped.empty());
  }
  const FittedSample late = Fit(Numbers(11, 9), {.sequence_len = 4, .excess = ExcessTokens::kSplit});
  REQUIRE(late.samples.size() == 2);
  CHECK(late.samples[0].ids == std::vector<int32_t>{106, 107, 108, 109});
  CHECK(late.split);
  // 100 to 103 and 103 to 106 have nothing to learn.
  CHECK(late.dropped == std::vector(2, DroppedSample{DropReason::kNothingTrained, 4}));
  // Split, though one piece alone is left of it.
  const FittedSample last = Fit(Numbers(8, 7), {.sequence_len = 5, .excess = ExcessTokens::kSplit});
  CHECK(last.samples.size() == 1);
  CHECK(last.split);
  CHECK(last.dropped == Drops(DropReason::kNothingTrained, 5));
}

TEST_CASE("drop, error, and what auto means") {
  CHECK(Fit(Numbers(10, 5), {.sequence_len = 9}).dropped == Drops(DropReason::kTooLong, 10));
  CHECK(Fit(Numbers(10, 5), {.sequence_len = 9}, RowFormat::kText).samples.size() == 2);
  CHECK(Fit(Numbers(10, 10), {}).dropped == Drops(DropReason::kNothingTrained, 10));
  CHECK(Fit(Numbers(1, 0), {}).dropped ==
        Drops(DropReason::kNothingTrained, 1));  // the first is never predicted
  const auto error = FitLength(Numbers(10, 5), RowFormat::kText,
                               {.sequence_len = 9, .excess = ExcessTokens::kError}, {"f", 3});
  REQUIRE_FALSE(error.ok());
  CHECK(std::string(error.status().message()).starts_with("f:3: error: found 10 tokens, expected at most"));
}

}  // namespace
}  // namespace ftune
