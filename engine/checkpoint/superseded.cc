#include "engine/checkpoint/superseded.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/strings.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "superseded-";

std::string NameOf(int attempt, int64_t step) {
  return StrCat(std::string(kPrefix), attempt, "-", CheckpointName(step));
}

// Nothing where it is no such folder's name.
std::optional<SupersededCheckpoint> Parse(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  SupersededCheckpoint found{.entry = {.folder = folder}};
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, found.attempt);
  if (error != std::errc() || stop == end) return std::nullopt;
  const std::optional<int64_t> step = StepOfName(std::string(stop + 1, end));
  if (!step || NameOf(found.attempt, *step) != name) return std::nullopt;
  found.entry.step = *step;
  return found;
}

}  // namespace

absl::StatusOr<std::vector<SupersededCheckpoint>> ListSuperseded(const fs::path& checkpoints) {
  std::vector<SupersededCheckpoint> found;
  if (!Exists(checkpoints)) return found;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> folders, ListFolder(checkpoints));
  for (const fs::path& folder : folders) {
    std::optional<SupersededCheckpoint> one = Parse(folder);
    std::error_code error;
    if (one && fs::is_directory(folder, error)) found.push_back(*std::move(one));
  }
  std::sort(found.begin(), found.end(), [](const SupersededCheckpoint& a, const SupersededCheckpoint& b) {
    return std::tie(a.attempt, a.entry.step) < std::tie(b.attempt, b.entry.step);
  });
  return found;
}

absl::StatusOr<std::vector<int64_t>> SetAsideAfter(const fs::path& checkpoints, int64_t step, int attempt) {
  FTUNE_ASSIGN_OR_RETURN(std::vector<CheckpointEntry> entries, ListCheckpointFolders(checkpoints));
  std::reverse(entries.begin(), entries.end());
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : entries) {
    if (entry.step <= step) continue;
    std::error_code error;
    fs::rename(entry.folder, checkpoints / NameOf(attempt, entry.step), error);
    if (error) return IoError(entry.folder, "rename", error.value());
    steps.push_back(entry.step);
  }
  if (!steps.empty()) FTUNE_RETURN_IF_ERROR(SyncFolder(checkpoints));
  return steps;
}

}  // namespace ftune
