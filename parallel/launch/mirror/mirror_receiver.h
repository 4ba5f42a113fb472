// The other end of MirrorSender: writes to the folder here what comes, by a thread of its own. A unit appears
// when all of it has come and is durable.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/descriptor.h"
#include "parallel/launch/frame.h"
#include "parallel/launch/mirror/mirror_inventory.h"
#include "parallel/launch/mirror/mirror_parts.h"

namespace ftune {

class MirrorReceiver {
 public:
  struct Options {
    std::filesystem::path folder;
    MirrorParts parts;
    std::function<absl::Status()> clear;  // of mirror::kClear
    std::function<void(const Frame&)> send;
  };

  explicit MirrorReceiver(Options options);
  ~MirrorReceiver();  // what has not come as a whole is removed
  MirrorReceiver(const MirrorReceiver&) = delete;
  MirrorReceiver& operator=(const MirrorReceiver&) = delete;

  // A frame of mirror::kDo.
  void Take(Frame frame);
  // What could not be written, and was not since.
  absl::Status status() const;
  // What could not be written since this was called last, each unit once until it can be.
  std::vector<absl::Status> TakeFailures();

 private:
  void Run();
  absl::Status Do(const Frame& frame, std::string& unit);
  absl::Status Begin(const std::string& unit);
  absl::Status AddData(const Frame& frame);
  absl::Status Commit(const Unit& files);
  absl::Status Remove(const std::string& unit);
  absl::Status Append(const Frame& frame, const std::string& name);
  void Abandon();
  std::filesystem::path Incomplete(const std::string& unit) const;
  void Note(const std::string& unit, const absl::Status& done);

  Options options_;
  std::string unit_;                  // that is coming; empty: none
  std::filesystem::path incomplete_;  // where
  Descriptor file_;                   // of it
  std::string file_name_;
  std::map<std::string, int64_t> appended_;  // up to where each file has come

  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Frame> frames_;
  std::map<std::string, absl::Status> failures_;
  std::vector<absl::Status> new_failures_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace ftune
