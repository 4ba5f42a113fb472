// What a run needs of the disk that it saves to, and what that has left.
#pragma once

#include <cstdint>
#include <optional>

#include "cmd/plan/dry_save.h"
#include "cmd/recipe/recipe.h"
#include "cmd/run_options.h"

namespace ftune {

struct DiskNeed {
  SavedBytes saved;             // of the whole mesh
  int64_t checkpoints = 0;      // at most there at once, the one that is being written included
  int64_t results = 0;          // likewise
  std::optional<int64_t> free;  // bytes, for this user, at output_dir; none where that cannot be told

  int64_t total() const { return checkpoints * saved.checkpoint + results * saved.result + saved.states; }
  bool fits() const { return !free || total() <= *free; }
};

// `steps.total` is 0 where it is not known.
DiskNeed FindDiskNeed(const Recipe& recipe, const SavedBytes& saved, const RunLength& steps);

}  // namespace ftune
