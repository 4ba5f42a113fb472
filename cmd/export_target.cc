#include "cmd/export_target.h"

#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/checkpoint/find_checkpoint.h"
#include "cmd/run_folder.h"
#include "engine/checkpoint/checkpoint_folder.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

// Links resolved as far as there is something.
fs::path Resolved(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return path;
  const fs::path resolved = fs::weakly_canonical(absolute, error);
  const fs::path found = error ? absolute.lexically_normal() : resolved;
  return found.has_filename() ? found : found.parent_path();
}

bool IsRun(const fs::path& folder) {
  const RunPaths run(folder);
  if (HasRun(run)) return true;
  const auto kept = ListCheckpoints(run.checkpoints());
  return kept.ok() && !kept->empty();
}

absl::Status IsTaken(const fs::path& out, const fs::path& folder, const char* what) {
  return UsageError(
      {.file = out.string(),
       .key = "--out",
       .message = StrCat("an export would be mixed with the files of ", what),
       .found = folder == Resolved(out) ? StrCat(what, "'s folder") : StrCat("a place in ", folder.string()),
       .expected = "a new folder, outside of it",
       .hint = "--force is of no help here"});
}

}  // namespace

absl::Status CheckExportTarget(const fs::path& out, bool single_file, bool force) {
  for (fs::path folder = Resolved(out); folder.has_relative_path(); folder = folder.parent_path()) {
    if (IsCheckpoint(folder)) return IsTaken(out, folder, "a checkpoint");
    if (IsRun(folder)) return IsTaken(out, folder, "a run");
  }
  std::error_code error;
  if (single_file || force || !fs::is_directory(out, error)) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(out));
  if (entries.empty()) return absl::OkStatus();
  return UsageError(
      {.file = out.string(),
       .key = "--out",
       .message = "there are files in this folder, which an export would replace or be mixed with",
       .found = StrCat(entries.front().filename().string(),
                       entries.size() > 1 ? StrCat(" and ", entries.size() - 1, " more") : ""),
       .expected = "a new or an empty folder",
       .hint = "choose another, or write into this one with --force"});
}

}  // namespace ftune
