#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/strings.h"
#include "data/source/dataset.h"

namespace ftune {
namespace {

constexpr char kKey[] = "data.val_set_size";
constexpr uint64_t kPurpose = 0x76616c5f736574;  // "val_set"

// `size` as a number of `rows` rows.
absl::StatusOr<int64_t> CountOf(double size, int64_t rows) {
  if (!(size >= 0) || (size >= 1 && size != std::floor(size))) {
    return UsageError({.key = kKey, .found = StrCat(size), .expected = "a share below 1, or a count"});
  }
  if (size == 0) return 0;
  const double count = size < 1 ? std::max(1.0, std::round(size * static_cast<double>(rows))) : size;
  if (count >= static_cast<double>(rows)) {
    return UsageError({.key = kKey,
                       .message = "no row would be left to train on",
                       .found = StrCat(size),
                       .expected = StrCat("less than all of the ", rows, rows == 1 ? " row" : " rows")});
  }
  return static_cast<int64_t>(count);
}

}  // namespace

absl::StatusOr<TrainAndEvaluation> SplitDataset(Dataset dataset, double size, uint64_t seed) {
  std::set<int64_t> kept;
  for (int64_t i = 0; i < dataset.size(); ++i) kept.insert(dataset.info(i).row);
  FTUNE_ASSIGN_OR_RETURN(const int64_t count, CountOf(size, static_cast<int64_t>(kept.size())));

  // Over all rows, so that a row's side does not change with the rows that a length policy drops; of those,
  // the first `count` that were kept.
  std::set<int64_t> chosen;
  for (const int64_t row : Permutation(dataset.report.rows, seed, kPurpose)) {
    if (static_cast<int64_t>(chosen.size()) == count) break;
    if (kept.contains(row)) chosen.insert(row);
  }
  TrainAndEvaluation result;
  result.train.store = result.evaluation.store = dataset.store;
  result.train.mix = dataset.mix;
  result.evaluation.mix.assign(dataset.mix.size(), {});
  result.train.report = std::move(dataset.report);
  for (const int64_t sample : dataset.samples) {
    Dataset& side = chosen.contains(dataset.store->info(sample).row) ? result.evaluation : result.train;
    side.samples.push_back(sample);
  }
  return result;
}

}  // namespace ftune
