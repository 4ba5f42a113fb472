#include "cmd/hub/resolve.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/hub/snapshot.h"
#include "base/mapped_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kReadme[] = "README.md";

// The repository that `path` names, if it is nothing on this disk.
std::optional<HubPath> OnHub(const std::string& path, RepoKind kind) {
  if (Exists(path)) return std::nullopt;
  return ParseHubPath(path, kind);
}

absl::StatusOr<std::string> CheckedRevision(const std::optional<std::string>& revision) {
  const std::string text = revision.value_or("main");
  if (IsRevision(text)) return text;
  return UsageError({.key = "revision",
                     .found = StrCat("'", text, "'"),
                     .expected = "a branch, a tag or a commit of the repository"});
}

absl::Status OnlyOnHub(const LoadedRecipe& loaded, const std::string& key, const std::string& path,
                       const std::string& what) {
  ErrorDetail detail = loaded.At(key);
  detail.found = StrCat(what, " with '", path, "', which is no repository of the hub but a path here");
  detail.hint =
      "remove it; repositories are named as org/name, and what is on this disk under that name wins";
  return UsageError(std::move(detail));
}

// What was tried is said too: a mistyped path looks like a hub id.
absl::Status Explain(const absl::Status& status, const std::string& path, const Repo& repo) {
  std::optional<ErrorDetail> detail = DetailOf(status);
  if (!detail) return status;
  if (detail->hint.empty() || detail->hint.find("path") == std::string::npos) {
    StrAppend(detail->hint, detail->hint.empty() ? "" : "; ", "there is no file or folder '", path,
              "' here, so it was taken for a ", repo.what(), " of the hub");
  }
  return UserError(static_cast<ExitCode>(ExitCodeOf(status)), *std::move(detail));
}

}  // namespace

absl::StatusOr<ResolvedModel> ResolveModelPath(const std::string& path,
                                               const std::optional<std::string>& revision, ModelParts parts,
                                               const HubReporter& reporter) {
  const std::optional<HubPath> hub = OnHub(path, RepoKind::kModel);
  if (!hub) return ResolvedModel{.path = path};
  FTUNE_ASSIGN_OR_RETURN(const HubSettings settings, ReadHubSettings(ProcessEnvironment()));
  FTUNE_ASSIGN_OR_RETURN(const std::string checked, CheckedRevision(revision));
  SnapshotRequest request{.repo = hub->repo, .revision = checked};
  using Paths = std::vector<std::string>;
  if (hub->file.empty()) {
    request.choose = [&](const Paths& paths) { return ChooseModelFiles(paths, parts, hub->repo.id); };
    request.complete = [&](const Paths& paths) { return IsWholeModel(paths, parts); };
  } else {
    const auto has = [&](const Paths& paths) {
      return std::find(paths.begin(), paths.end(), hub->file) != paths.end();
    };
    request.complete = has;
    request.choose = [&, has](const Paths& paths) -> absl::StatusOr<Paths> {
      if (has(paths)) return Paths{hub->file};
      return DataError(
          {.file = hub->repo.id, .message = StrCat("the repository has no file '", hub->file, "'")});
    };
  }
  const absl::StatusOr<Snapshot> snapshot = OpenSnapshot(request, settings, reporter);
  if (!snapshot.ok()) return Explain(snapshot.status(), path, hub->repo);
  return ResolvedModel{.path = hub->file.empty() ? snapshot->folder : snapshot->folder / hub->file,
                       .commit = snapshot->commit};
}

absl::StatusOr<ResolvedDataset> ResolveDataset(const std::string& path,
                                               const std::optional<std::string>& revision,
                                               DatasetChoice choice, const HubReporter& reporter,
                                               HubAccess access) {
  const std::optional<HubPath> hub = OnHub(path, RepoKind::kDataset);
  if (!hub) return ResolvedDataset{};
  FTUNE_ASSIGN_OR_RETURN(HubSettings settings, ReadHubSettings(ProcessEnvironment()));
  if (access == HubAccess::kCacheOnly && settings.offline.empty()) settings.offline = "this command";
  FTUNE_ASSIGN_OR_RETURN(const std::string checked, CheckedRevision(revision));
  choice.id = hub->repo.id;
  using Paths = std::vector<std::string>;
  // The README first: it may say which files are which split.
  SnapshotRequest request{.repo = hub->repo, .revision = checked};
  request.choose = [](const Paths& paths) -> absl::StatusOr<Paths> {
    const bool has = std::find(paths.begin(), paths.end(), kReadme) != paths.end();
    return has ? Paths{kReadme} : Paths{};
  };
  const absl::StatusOr<Snapshot> first = OpenSnapshot(request, settings, reporter);
  if (!first.ok()) return Explain(first.status(), path, hub->repo);
  std::string readme;
  if (!first->files.empty()) {
    FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(first->folder / kReadme));
    readme = file.text();
  }
  request.revision = first->commit;
  DatasetFiles chosen;
  request.choose = [&](const Paths& paths) -> absl::StatusOr<Paths> {
    FTUNE_ASSIGN_OR_RETURN(chosen, ChooseDatasetFiles(paths, readme, choice));
    return chosen.files;
  };
  const absl::StatusOr<Snapshot> snapshot = OpenSnapshot(request, settings, reporter);
  if (!snapshot.ok()) return Explain(snapshot.status(), path, hub->repo);
  if (reporter.say) {
    for (const std::string& note : chosen.notes) reporter.say(StrCat(hub->repo.id, ": ", note));
  }
  ResolvedDataset resolved{.commit = snapshot->commit};
  for (const std::string& file : snapshot->files)
    resolved.files.push_back((snapshot->folder / file).string());
  return resolved;
}

absl::Status ResolveModelOf(LoadedRecipe& loaded, const HubReporter& reporter, ModelParts parts) {
  ModelSection& model = loaded.recipe.model;
  FTUNE_ASSIGN_OR_RETURN(const ResolvedModel resolved,
                         ResolveModelPath(model.path, model.revision, parts, reporter));
  model.here = resolved.path.string();
  if (!resolved.commit.empty()) {
    model.revision = resolved.commit;
  } else if (model.revision) {
    return OnlyOnHub(loaded, "model.revision", model.path, "a revision");
  }
  return absl::OkStatus();
}

absl::Status ResolveDatasetsOf(LoadedRecipe& loaded, const HubReporter& reporter, HubAccess access) {
  const auto resolve = [&](const std::string& key, std::vector<DataSource>& sources,
                           bool train) -> absl::Status {
    for (DataSource& source : sources) {
      FTUNE_ASSIGN_OR_RETURN(
          const ResolvedDataset resolved,
          ResolveDataset(source.path, source.revision,
                         {.subset = source.name, .split = source.split, .train_is_meant = train}, reporter,
                         access));
      source.files = resolved.files;
      if (!resolved.commit.empty()) {
        source.revision = resolved.commit;
      } else if (source.revision || source.name || source.split) {
        return OnlyOnHub(loaded, key, source.path,
                         source.revision ? "a revision"
                         : source.name   ? "a name (a subset)"
                                         : "a split");
      }
    }
    return absl::OkStatus();
  };
  FTUNE_RETURN_IF_ERROR(resolve("data.train", loaded.recipe.data.train, true));
  return resolve("data.eval", loaded.recipe.data.eval, false);
}

}  // namespace ftune
