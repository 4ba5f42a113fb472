#include "data/source/split_dataset.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kKey[] = "data.val_set_size";

// The draws are not those of any seed of a recipe: nothing but the row decides.
constexpr uint64_t kDrawKey = 0x726f775f64726177;   // "row_draw"
constexpr uint64_t kEvaluation = 0x76616c5f736574;  // "val_set"
constexpr uint64_t kLimit = 0x6c696d6974;           // "limit"

// Uniform over the 64-bit numbers, were hashes random.
uint64_t RowDraw(uint64_t row_hash, uint64_t purpose) {
  const auto block = Philox(kDrawKey, row_hash, purpose);
  return static_cast<uint64_t>(block[0]) << 32 | block[1];
}

absl::Status CheckSize(double size) {
  if (size >= 0 && (size < 1 || size == std::floor(size))) return absl::OkStatus();
  return UsageError({.key = kKey, .found = StrCat(size), .expected = "a share below 1, or a count"});
}

// One draw for each row.
std::vector<uint64_t> RowDraws(const Dataset& dataset) {
  std::vector<uint64_t> draws;
  int64_t last_row = -1;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const SampleInfo info = dataset.info(i);
    if (std::exchange(last_row, info.row) == info.row) continue;  // samples of a row stand side by side
    draws.push_back(RowDraw(info.row_hash, kEvaluation));
  }
  return draws;
}

// Rows with draws up to this one are evaluated; nothing: none is.
std::optional<uint64_t> LastDraw(std::vector<uint64_t> draws, double size) {
  if (size < 1) {
    const double limit = std::ldexp(size, 64);  // below 2^64
    return limit < 1 ? std::nullopt : std::optional(static_cast<uint64_t>(limit) - 1);
  }
  if (draws.empty()) return std::nullopt;
  const auto last =
      draws.begin() + (std::min<int64_t>(static_cast<int64_t>(size), static_cast<int64_t>(draws.size())) - 1);
  std::nth_element(draws.begin(), last, draws.end());
  return *last;
}

absl::Status NoneLeft(const char* what, double size, int64_t rows) {
  return UsageError({.key = kKey,
                     .message = StrCat("no row would be left to ", what),
                     .found = StrCat(size, " of ", rows, rows == 1 ? " row" : " rows"),
                     .expected = "some rows on either side",
                     .hint = size < 1 ? "each row's own hash decides: give a count instead, or data.eval"
                                      : "give a smaller count, or data.eval"});
}

}  // namespace

absl::StatusOr<TrainAndEvaluation> SplitDataset(Dataset dataset, double size) {
  FTUNE_RETURN_IF_ERROR(CheckSize(size));
  if (size == 0) return TrainAndEvaluation{.train = std::move(dataset)};
  std::vector<uint64_t> draws = RowDraws(dataset);
  const auto rows = static_cast<int64_t>(draws.size());
  const std::optional<uint64_t> last = LastDraw(std::move(draws), size);

  TrainAndEvaluation result;
  result.train.store = result.evaluation.store = dataset.store;
  result.train.mix = dataset.mix;
  result.evaluation.mix.assign(dataset.mix.size(), {});
  result.train.report = std::move(dataset.report);
  for (const int64_t sample : dataset.samples) {
    const bool evaluated = last && RowDraw(dataset.store->info(sample).row_hash, kEvaluation) <= *last;
    (evaluated ? result.evaluation : result.train).samples.push_back(sample);
  }
  if (result.evaluation.samples.empty()) return NoneLeft("evaluate on", size, rows);
  if (result.train.samples.empty()) return NoneLeft("train on", size, rows);
  return result;
}

void LimitSamples(Dataset& dataset) {
  std::map<size_t, std::vector<int64_t>> limited;  // samples, by entry
  std::vector<int64_t> kept;
  for (const int64_t sample : dataset.samples) {
    const auto entry = static_cast<size_t>(dataset.store->info(sample).entry);
    (dataset.mix.at(entry).max_samples ? limited[entry] : kept).push_back(sample);
  }
  if (limited.empty()) return;
  for (auto& [entry, samples] : limited) {
    const auto most = static_cast<size_t>(*dataset.mix[entry].max_samples);
    std::vector<std::pair<uint64_t, int64_t>> by_draw;
    by_draw.reserve(samples.size());
    for (const int64_t sample : samples) {
      by_draw.emplace_back(RowDraw(dataset.store->info(sample).row_hash, kLimit), sample);
    }
    std::sort(by_draw.begin(), by_draw.end());
    by_draw.resize(std::min(most, by_draw.size()));
    for (const auto& [draw, sample] : by_draw) kept.push_back(sample);
  }
  std::sort(kept.begin(), kept.end());
  dataset.samples = std::move(kept);
}

}  // namespace ftune
