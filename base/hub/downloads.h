// Downloads of a repository's files into the cache: several at once, each going on where it was left.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/hub/hub_api.h"
#include "base/hub/hub_reporter.h"
#include "base/hub/repo_cache.h"

namespace ftune {

struct DownloadJob {
  Repo repo;
  std::string commit;
  std::vector<RepoFile> files;  // that are not in the snapshot yet
};

class Downloads {
 public:
  // All outlive it.
  Downloads(Network& network, const HubSettings& settings, const DownloadJob& job,
            const HubReporter& reporter);

  // Returns when all files are in the snapshot, checked by size and hash, or with the first error: what has
  // come by then is kept.
  absl::Status Run();

 private:
  void Work();
  // Its blob.
  absl::Status Download(HttpClient& client, const RepoFile& file);
  absl::Status Receive(HttpClient& client, const RepoFile& file, class BlobWriter& writer);
  absl::Status CheckSpace() const;
  void Say(std::string message);
  // False: the download is to stop.
  bool Wait(std::chrono::milliseconds duration);
  void Report(bool finished) const;

  Network& network_;
  const HubSettings& settings_;
  const DownloadJob& job_;
  const HubReporter& reporter_;
  const std::vector<std::vector<RepoFile>> contents_;  // each is fetched once, for all files that have it
  const RepoCache cache_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();

  std::atomic<size_t> next_{0};
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> resumed_{0};
  std::atomic<bool> stop_{false};

  std::mutex mutex_;
  std::condition_variable changed_;
  int working_ = 0;                    // under mutex_, as those below
  std::vector<std::string> messages_;  // not said yet
  absl::Status error_;                 // the first
};

}  // namespace ftune
