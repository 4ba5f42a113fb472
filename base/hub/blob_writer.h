// A blob while it comes: written to its .incomplete file and digested on the way, from where it was left.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/http/network.h"
#include "base/hub/repo_file.h"

namespace ftune {

class BlobWriter {
 public:
  // Opens or makes the file; what is there already is digested. One that is longer than the blob starts anew.
  static absl::StatusOr<BlobWriter> Open(const std::filesystem::path& path, const RepoFile& file,
                                         Network& network);
  BlobWriter(BlobWriter&& other) noexcept;
  BlobWriter& operator=(BlobWriter&&) = delete;
  ~BlobWriter();

  int64_t size() const { return size_; }
  bool complete() const { return size_ == file_.size; }

  // More than the blob's size is an error.
  absl::Status Append(std::string_view bytes);
  absl::Status Restart();
  // Whether the content is what its name says. Once, when it is complete.
  bool Verify();
  // Flushes it to disk and gives it its name.
  absl::Status Commit(const std::filesystem::path& blob);

 private:
  BlobWriter(std::filesystem::path path, const RepoFile& file, Network& network, int descriptor);
  void StartDigest();

  std::filesystem::path path_;
  RepoFile file_;
  Network* network_;
  int descriptor_;
  int64_t size_ = 0;
  std::unique_ptr<Digest> digest_;
};

}  // namespace ftune
