// A rank's ties to the other ranks of its host, which its groups share: memory of theirs that it maps, and
// the word that one of them failed, died, or does not answer. A thread listens.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/comm/shm_memory.h"
#include "parallel/comm/shm_options.h"
#include "parallel/comm/shm_socket.h"
#include "parallel/comm/transport.h"

namespace ftune {

class ShmHost : public std::enable_shared_from_this<ShmHost> {
 public:
  // Returns when all ranks are there.
  static absl::StatusOr<std::shared_ptr<ShmHost>> Join(const ShmOptions& options);
  // Leaves in order: to the others, this rank has not died.
  ~ShmHost();
  ShmHost(const ShmHost&) = delete;
  ShmHost& operator=(const ShmHost&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  int NameOf(int rank) const { return options_.NameOf(rank); }

  // Memory that the other ranks can map. It stays with its last local owner, whether or not this object is
  // still there; then its pages are freed, and the others unmap it. Not collective. A refusal aborts.
  absl::StatusOr<SharedBytes> Allocate(int64_t bytes);
  // Where [data, data + bytes) is, if it is within one such allocation of this rank.
  struct Place {
    uint64_t memory = 0;
    int64_t offset = 0;
  };
  bool Locate(const std::byte* data, int64_t bytes, Place& place) const;

  // New memory that `to` can Find by this rank and `id`, which has the highest bit set.
  absl::StatusOr<std::unique_ptr<ShmMemory>> Publish(uint64_t id, int64_t bytes, std::span<const int> to);
  // Memory of another rank; waits for word of it. Null where the time passed, after an error, or where the
  // owner has left.
  std::shared_ptr<ShmMemory> Find(int owner, uint64_t id, absl::Time deadline);
  bool HasLeft(int rank) const;
  // Forgets what Find gave.
  void Forget(int owner, uint64_t id);

  // From any thread. The first status stays, and the other ranks get it.
  void Abort(const absl::Status& status);
  absl::Status status() const;

 private:
  struct Peer {
    ShmSocket socket;
    bool listening = true;  // to it
    int quiet_ticks = 0;
  };
  ShmHost(const ShmOptions& options, std::vector<ShmSocket> sockets, Descriptor wake);
  void Listen();
  // Everything that is there to be received.
  void ReceiveFrom(int rank);
  void Handle(int rank, ShmMessage message);
  void Tick();
  bool Tell(int rank, const ShmMessage& message, int descriptor, absl::Duration patience);
  void Drop(uint64_t id, const std::byte* data);
  // Ends all because the system gave no memory.
  absl::Status Refuse(int64_t bytes, const absl::Status& cause);

  const ShmOptions options_;
  const absl::Duration tick_;
  std::vector<Peer> peers_;  // by rank; but for the sockets, of the listening thread
  Descriptor wake_;          // written to when the thread is to end

  std::atomic<bool> failed_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status status_;
  std::vector<bool> left_;                                                // by rank
  std::map<std::pair<int, uint64_t>, std::shared_ptr<ShmMemory>> found_;  // by owner and id
  struct Own {
    uint64_t id;
    int64_t bytes;
  };
  std::map<const std::byte*, Own> own_;  // by its begin
  uint64_t next_id_ = 0;
  std::thread thread_;
};

}  // namespace ftune
