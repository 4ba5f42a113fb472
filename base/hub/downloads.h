// Downloads of a repository's files into the cache: several at once, each going on where it was left.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/hub/hub_api.h"
#include "base/hub/repo_cache.h"

namespace ftune {

struct Transfer {
  std::string repo;
  int64_t files = 0;
  int64_t bytes = 0;  // here already, those of earlier tries included
  int64_t total = 0;
  int64_t resumed = 0;  // of `bytes`: here before this began
  double seconds = 0.0;
  bool finished = false;
};

// Both are called by the thread that waits for the download. Null: not told.
struct HubReporter {
  std::function<void(const std::string& message)> say;
  std::function<void(const Transfer& transfer)> transfer;  // a few times a second, and when all is there
};

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
