#include "base/hub/snapshot.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/http/network_library.h"
#include "base/hub/downloads.h"
#include "base/hub/hub_api.h"
#include "base/hub/repo_cache.h"
#include "base/strings.h"

namespace ftune {
namespace {

std::vector<std::string> Paths(const std::vector<RepoFile>& files) {
  std::vector<std::string> paths;
  for (const RepoFile& file : files) paths.push_back(file.path);
  std::sort(paths.begin(), paths.end());
  return paths;
}

class SnapshotOpener {
 public:
  SnapshotOpener(const SnapshotRequest& request, const HubSettings& settings, const HubReporter& reporter)
      : request_(request),
        settings_(settings),
        reporter_(reporter),
        cache_(settings.cache, request.repo),
        commit_(cache_.CommitOf(request.revision)) {
    if (commit_) tree_ = cache_.Tree(*commit_);
  }

  absl::StatusOr<Snapshot> Open() {
    if (tree_) {
      FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> chosen, request_.choose(Paths(*tree_)));
      if (Missing(chosen).empty()) return Snapshot{cache_.Snapshot(*commit_), *commit_, chosen};
    } else if (commit_ && request_.complete && request_.complete(cache_.FilesOf(*commit_))) {
      return FromFilesHere();
    }
    if (!settings_.offline.empty()) return Offline();
    absl::StatusOr<Snapshot> fetched = Fetch();
    if (fetched.ok() || !IsUnreachable(fetched.status()) || tree_ || !commit_) return fetched;
    absl::StatusOr<Snapshot> here = FromFilesHere();
    if (!here.ok()) return fetched;
    Say(StrCat(request_.repo.id, ": ", DetailOf(fetched.status())->message, "; using what is in the cache"));
    return here;
  }

 private:
  void Say(const std::string& message) const {
    if (reporter_.say) reporter_.say(message);
  }

  std::vector<RepoFile> Missing(const std::vector<std::string>& chosen) const {
    std::vector<RepoFile> missing;
    for (const RepoFile& file : *tree_) {
      const bool wanted = std::find(chosen.begin(), chosen.end(), file.path) != chosen.end();
      if (wanted && !cache_.Has(*commit_, file)) missing.push_back(file);
    }
    return missing;
  }

  absl::StatusOr<Snapshot> FromFilesHere() const {
    FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> chosen, request_.choose(cache_.FilesOf(*commit_)));
    return Snapshot{cache_.Snapshot(*commit_), *commit_, chosen};
  }

  absl::StatusOr<Snapshot> Offline() const {
    if (commit_ && !tree_) {
      absl::StatusOr<Snapshot> here = FromFilesHere();
      if (here.ok()) return here;
    }
    return DataError({.file = request_.repo.id,
                      .message = StrCat("neither a path here, nor a ", request_.repo.what(),
                                        " that is complete in the cache ", settings_.cache.string(), ", and ",
                                        settings_.offline, " forbids to download it"),
                      .hint = StrCat("check the path, or unset ", settings_.offline)});
  }

  absl::StatusOr<Snapshot> Fetch() {
    FTUNE_ASSIGN_OR_RETURN(Network * network,
                           LoadNetwork("downloads", "put the files into the cache on another machine"));
    HttpClient client(*network, HubClientOptions(settings_));
    HubApi api(client, settings_, request_.repo);
    const OnRetry on_retry = [this](const std::string& why) {
      Say(StrCat(request_.repo.id, ": ", why, "; trying again"));
    };
    if (!tree_) {
      std::string commit = request_.revision;
      if (!IsCommit(commit)) {
        FTUNE_ASSIGN_OR_RETURN(commit, api.Commit(request_.revision, on_retry));
      }
      FTUNE_ASSIGN_OR_RETURN(std::vector<RepoFile> tree, api.Tree(commit, on_retry));
      FTUNE_RETURN_IF_ERROR(cache_.WriteTree(commit, tree));
      FTUNE_RETURN_IF_ERROR(cache_.WriteCommitOf(request_.revision, commit));
      commit_ = commit;
      tree_ = std::move(tree);
    }
    FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> chosen, request_.choose(Paths(*tree_)));
    const DownloadJob job{.repo = request_.repo, .commit = *commit_, .files = Missing(chosen)};
    if (!job.files.empty()) {
      FTUNE_RETURN_IF_ERROR(Downloads(*network, settings_, job, reporter_).Run());
    }
    return Snapshot{cache_.Snapshot(*commit_), *commit_, chosen};
  }

  const SnapshotRequest& request_;
  const HubSettings& settings_;
  const HubReporter& reporter_;
  const RepoCache cache_;
  std::optional<std::string> commit_;
  std::optional<std::vector<RepoFile>> tree_;  // of commit_
};

}  // namespace

absl::StatusOr<Snapshot> OpenSnapshot(const SnapshotRequest& request, const HubSettings& settings,
                                      const HubReporter& reporter) {
  return SnapshotOpener(request, settings, reporter).Open();
}

}  // namespace ftune
