// Makes a folder elsewhere equal to one here, and keeps it so: looks again and again at what has come,
// changed and gone, and sends that, by a thread of its own.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "parallel/launch/frame.h"
#include "parallel/launch/mirror/mirror_inventory.h"
#include "parallel/launch/mirror/mirror_parts.h"
#include "parallel/launch/mirror/send_window.h"

namespace ftune {

class MirrorSender {
 public:
  struct Options {
    std::filesystem::path folder;
    MirrorParts parts;
    MirrorInventory there;  // what the other end has
    bool removes = true;    // what is there and not here
    // What is there is of another run: it goes, once the first of the appended files is here.
    bool begins = false;
    // Where the log is the same, all that was here when this sender began is there too; else the log comes
    // before what it tells of, for those who follow it.
    bool appended_last = false;
    std::function<void(const Frame&)> send;
  };

  explicit MirrorSender(Options options);
  ~MirrorSender();  // at once, whatever is still to be sent
  MirrorSender(const MirrorSender&) = delete;
  MirrorSender& operator=(const MirrorSender&) = delete;

  // A frame of mirror::kDone.
  void Take(const Frame& frame);
  // Nothing will change any more: it looks for a last time.
  void Finish();
  // All that could be sent has been, and has come. Then `status` says whether that is all.
  bool finished() const;
  absl::Status status() const;

 private:
  struct Appended {
    bool known = false;  // what the other end has of it
    uint64_t file = 0;   // its number
    int64_t sent = 0;    // bytes
  };

  void Run();
  // Sends what differs.
  absl::Status Look();
  absl::Status SendUnit(const std::string& name, const Unit& unit);
  absl::Status SendFiles(const std::string& name, const Unit& unit, bool& whole);
  absl::Status SendAppended();
  // Up to `size` bytes of it.
  absl::Status SendGrown(const std::string& name, int64_t size);
  // Whether the other end has what must be there before anything is told of it.
  absl::StatusOr<bool> HasAnnounced() const;
  void Remove(const std::string& name);
  void Send(nlohmann::json facts, std::string bytes = "");
  // What the other end could not write is not there.
  void TakeFailures();
  // Whether it has failed a moment ago. The last time all is tried.
  bool Waits(const std::string& name) const;
  bool stopped() const;

  Options options_;
  SendWindow window_;
  std::map<std::string, Appended> appended_;
  std::map<std::string, absl::Duration> try_again_;  // when
  absl::Duration appended_at_;                       // when they were looked at, last
  bool refused_ = false;                             // the unit that is being sent
  bool last_ = false;                                // this is the last look

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, int64_t> failures_;  // that were not looked at yet; of an appended file what it has
  absl::Status status_;
  bool finishing_ = false, finished_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace ftune
