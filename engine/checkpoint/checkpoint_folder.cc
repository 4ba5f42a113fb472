#include "engine/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <system_error>

#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "base/xxh3_stream.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
// Of a name that is no checkpoint's.
constexpr std::string_view kRemoving = ".removing-";

absl::Status Rename(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  return error ? IoError(from, "rename", error.value()) : absl::OkStatus();
}

}  // namespace

std::string CheckpointName(int64_t step) { return absl::StrFormat("step-%08d", step); }

std::optional<int64_t> StepOfName(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t step = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0 || CheckpointName(step) != name) return std::nullopt;
  return step;
}

absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpoints(const fs::path& checkpoints) {
  FTUNE_ASSIGN_OR_RETURN(std::vector<CheckpointEntry> found, ListCheckpointFolders(checkpoints));
  std::erase_if(found, [](const CheckpointEntry& entry) { return !Exists(entry.folder / kManifestName); });
  return found;
}

absl::StatusOr<std::vector<CheckpointEntry>> ListCheckpointFolders(const fs::path& checkpoints) {
  std::vector<CheckpointEntry> found;
  if (!Exists(checkpoints)) return found;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(checkpoints));
  for (const fs::path& entry : entries) {
    const std::optional<int64_t> step = StepOfName(entry.filename().string());
    std::error_code error;
    if (step && fs::is_directory(entry, error)) found.push_back({*step, entry});
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointEntry& a, const CheckpointEntry& b) { return a.step > b.step; });
  return found;
}

absl::StatusOr<Manifest> InspectCheckpoint(const fs::path& folder) {
  FTUNE_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(folder));
  for (const CheckpointFile& file : manifest.files) {
    const fs::path path = folder / file.name;
    std::error_code error;
    const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
    if (error) return IoError(path, "read", error.value());
    if (bytes == file.bytes) continue;
    return DataError({.file = path.string(),
                      .message = bytes < file.bytes ? "the file is cut off" : "the file has grown",
                      .found = StrCat(bytes, " bytes"),
                      .expected = StrCat(file.bytes)});
  }
  return manifest;
}

absl::Status CheckHash(const fs::path& folder, const CheckpointFile& file,
                       const std::function<void(int64_t)>& on_bytes) {
  constexpr size_t kPiece = size_t{8} << 20;
  FTUNE_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(folder / file.name));
  Xxh3Stream hash;
  for (size_t at = 0; at < mapped.text().size(); at += kPiece) {
    const std::string_view piece = mapped.text().substr(at, kPiece);
    hash.Add(piece);
    if (on_bytes) on_bytes(std::ssize(piece));
  }
  if (static_cast<int64_t>(mapped.text().size()) == file.bytes && hash.Digest64() == file.xxh3)
    return absl::OkStatus();
  return DataError({.file = (folder / file.name).string(),
                    .message = "the file is damaged: it is not what was written",
                    .found = absl::StrFormat("a checksum of %016x", hash.Digest64()),
                    .expected = absl::StrFormat("%016x", file.xxh3)});
}

absl::Status CommitCheckpoint(const fs::path& folder, const Manifest& manifest, const fs::path& target) {
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(folder / kManifestName, WriteManifest(manifest)));
  return ReplaceFolder(folder, target);
}

absl::Status RemoveCheckpoint(const fs::path& folder) {
  const fs::path doomed = folder.parent_path() / StrCat(std::string(kRemoving), folder.filename().string());
  FTUNE_RETURN_IF_ERROR(RemoveFolder(doomed));
  FTUNE_RETURN_IF_ERROR(Rename(folder, doomed));
  return RemoveFolder(doomed);
}

std::vector<int64_t> StepsToRemove(std::vector<int64_t> steps, const Retention& retention) {
  std::sort(steps.begin(), steps.end(), std::greater<>());
  std::vector<int64_t> doomed;
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool last = static_cast<int64_t>(i) < retention.keep_last;
    const bool every = retention.keep_every && steps[i] % *retention.keep_every == 0;
    if (!last && !every && steps[i] != retention.best_step) doomed.push_back(steps[i]);
  }
  std::reverse(doomed.begin(), doomed.end());
  return doomed;
}

}  // namespace ftune
