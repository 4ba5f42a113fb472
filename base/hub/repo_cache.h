// A repository in the hub's cache, laid out as huggingface_hub has it, so that both find what the other
// downloaded:
//
//   models--org--name/refs/main                 a commit
//   models--org--name/blobs/ETAG                content, by its hash; ETAG.incomplete while it comes
//   models--org--name/snapshots/COMMIT/a/b.json a relative link to a blob
//   models--org--name/trees/COMMIT.json         what the repository has at the commit
//   .locks/models--org--name/ETAG.lock          held while a blob is downloaded
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/hub/repo.h"
#include "base/hub/repo_file.h"

namespace ftune {

class RepoCache {
 public:
  RepoCache(std::filesystem::path cache, const Repo& repo);

  // The commit that a branch or tag stood for when it was last asked for; a commit is itself.
  std::optional<std::string> CommitOf(const std::string& revision) const;
  // Everything that the repository has at the commit, where that is known.
  std::optional<std::vector<RepoFile>> Tree(const std::string& commit) const;
  // Paths of the files of a commit that are here, sorted.
  std::vector<std::string> FilesOf(const std::string& commit) const;
  // Whether the file is here, with the size it must have.
  bool Has(const std::string& commit, const RepoFile& file) const;
  bool HasBlob(const RepoFile& file) const;

  std::filesystem::path Snapshot(const std::string& commit) const { return root_ / "snapshots" / commit; }
  std::filesystem::path Blob(const RepoFile& file) const { return root_ / "blobs" / file.etag(); }
  std::filesystem::path Incomplete(const RepoFile& file) const;
  std::filesystem::path Lock(const RepoFile& file) const { return locks_ / (file.etag() + ".lock"); }
  const std::filesystem::path& root() const { return root_; }

  absl::Status WriteCommitOf(const std::string& revision, const std::string& commit) const;
  absl::Status WriteTree(const std::string& commit, const std::vector<RepoFile>& files) const;
  // Makes the blob, which is there, the snapshot's file.
  absl::Status Link(const std::string& commit, const RepoFile& file) const;

 private:
  std::filesystem::path root_;
  std::filesystem::path locks_;
};

}  // namespace ftune
