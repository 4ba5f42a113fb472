// What the ranks of several hosts hear of each other beside their calls, through the store: that they live,
// why they failed, that they have left. A connection says nothing while its other end is stopped or out of
// reach, and not why it was closed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/comm/late_ranks.h"
#include "parallel/launch/key_value_store.h"

namespace ftune {

struct GlooWatchOptions {
  int rank = 0;
  std::vector<int> names;  // of all ranks, in messages
  std::shared_ptr<KeyValueStore> store;
  std::string prefix;  // of the group's keys in it
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  bool first_serves = false;  // the store ends with the first rank
};

class GlooWatch {
 public:
  explicit GlooWatch(GlooWatchOptions options);
  ~GlooWatch() { Leave(); }
  GlooWatch(const GlooWatch&) = delete;
  GlooWatch& operator=(const GlooWatch&) = delete;

  // The first word of this rank; before any other calls Start.
  absl::Status Enter();
  // `failed` is called from a thread of this object, at most once, with what a rank told of, or which one has
  // been silent for too long.
  void Start(std::function<void(const absl::Status&)> failed);

  // From any thread, and in a short time, though the store may not answer.
  void Tell(const absl::Status& cause);
  // Why `peer` closed its connection: by its own word, another's or the store's; else that it did. Where a
  // rank has come to its time-out, as Settle.
  absl::Status CauseOf(int peer, const LateReport& report);
  // Says what this rank waits for in vain, hears what the others do, and gives the error to which all come.
  absl::Status Settle(const LateReport& report);
  // In order, unless it has told of a failure: to the others, this rank is not lost. The last call.
  void Leave();

 private:
  struct Peer {
    std::string word;  // the last
    absl::Duration silent;
  };
  const std::string& own_key() const { return keys_[options_.rank]; }
  void Run(const std::function<void(const absl::Status&)>& failed);
  // What all ranks have said.
  struct Words {
    bool store_gone = false;
    bool heard = false;  // any
    std::optional<absl::Status> failure;
    std::vector<LateReport> late;
  };
  // Hears all but this rank, until `deadline`; of several that failed what `first` says, if it is one.
  Words HearAll(int first, absl::Time deadline);
  // Says that this rank lives, again and again, however long the store takes to answer what is asked of it.
  void SayAlive();
  // Hears whether the others live; `since` is how long ago it did so before. An error is that of the group.
  absl::Status Hear(absl::Duration since);
  // After the store has gone.
  void AwaitLeave(const std::function<void(const absl::Status&)>& failed);
  // The errors of the store, which may be slow for a while.
  absl::Status Judge(const absl::Status& answer, absl::Duration since);
  // False where nobody listens any more.
  bool Sleep(absl::Duration duration);
  bool ending();

  const GlooWatchOptions options_;
  const absl::Duration tick_, patience_;
  std::vector<std::string> keys_;  // by rank
  std::vector<Peer> peers_;        // by rank; of the thread that hears
  absl::Duration store_silent_;    // so, too
  bool store_gone_ = false;        // so, too

  std::mutex mutex_;
  std::condition_variable changed_;
  bool leaving_ = false;
  std::string report_;   // this rank's word, where it waits in vain
  std::string failure_;  // and where it failed
  std::thread says_, hears_;
};

}  // namespace ftune
