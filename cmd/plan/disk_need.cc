#include "cmd/plan/disk_need.h"

#include <sys/statvfs.h>

#include <algorithm>

#include "base/folder.h"
#include "cmd/train/run_checkpoints.h"

namespace ftune {
namespace {

std::optional<int64_t> FreeAt(const std::filesystem::path& folder) {
  struct statvfs facts = {};
  if (statvfs(NearestFolder(folder).c_str(), &facts) != 0) return std::nullopt;
  return static_cast<int64_t>(facts.f_bavail * facts.f_frsize);
}

int64_t MostCheckpoints(const CheckpointSection& checkpoint, const RunLength& steps) {
  int64_t kept = checkpoint.keep_last + (checkpoint.keep_best ? 1 : 0);
  if (checkpoint.keep_every) kept += steps.total / *checkpoint.keep_every;
  ++kept;  // the old ones go when the new one is durable
  const std::optional<int64_t> every = RunCheckpoints::OptionsOf(checkpoint, steps, RunPaths("")).every;
  if (!every || steps.total == 0 || checkpoint.keep_best) return kept;
  return std::min(kept, (steps.total + *every - 1) / *every);  // as many as are saved at all
}

}  // namespace

DiskNeed FindDiskNeed(const Recipe& recipe, const SavedBytes& saved, const RunLength& steps) {
  return {.saved = saved,
          .checkpoints = MostCheckpoints(recipe.checkpoint, steps),
          .results =
              recipe.checkpoint.keep_best ? 2 : 1,  // a better one replaces the one before once it is whole
          .free = FreeAt(*recipe.output_dir)};
}

}  // namespace ftune
