// Parts of a dataset by its rows' hashes: which rows are evaluated, and which are used at all. A row's
// draw depends on what it says alone (row_hash.h), so equal rows share it, and neither their order, how a
// file spells them nor the seed change it. With a share, that is a row's fate for ever, whatever rows stand
// beside it. With a count, the smallest draws are taken: a row that is added, removed or dropped (by the
// length policy) can push another one over the border.
#pragma once

#include "absl/status/statusor.h"
#include "data/source/dataset.h"

namespace ftune {

struct TrainAndEvaluation {
  Dataset train;       // with the report of both
  Dataset evaluation;  // empty where nothing was asked for
};

// Takes rows for evaluation: a share of all possible rows (`size` < 1), so of these about as many; or a
// count: those with the smallest hashes, and a few more where equal rows stand at the border. 0: none. All
// samples of a row stay together. An error where one of the two sides would be left without rows.
absl::StatusOr<TrainAndEvaluation> SplitDataset(Dataset dataset, double size);

// Leaves of each entry at most max_samples samples: those of the rows with the smallest hashes (of another
// draw than that of SplitDataset). All of a row's samples before those of the next; of equal rows the first.
void LimitSamples(Dataset& dataset);

}  // namespace ftune
