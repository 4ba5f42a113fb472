// What the ranks of a host tell each other over Unix sockets: descriptors of memory, errors, signs of life.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/descriptor.h"
#include "parallel/comm/shm_options.h"

namespace ftune {

enum class ShmNews : uint32_t {
  kHello,   // id: the rank; bytes: the number of ranks
  kMemory,  // id and bytes of memory whose descriptor comes along
  kDrop,    // id of memory that is used no more
  kBeat,    // the sender is alive
  kAbort,   // text: the status
  kLeave,   // the sender ends in order
};

struct ShmMessage {
  ShmNews news = ShmNews::kBeat;
  uint64_t id = 0;
  int64_t bytes = 0;
  std::string text;
  Descriptor descriptor;
};

// Whole messages between two processes. Any thread may send; one receives.
class ShmSocket {
 public:
  ShmSocket() = default;
  explicit ShmSocket(Descriptor socket) : socket_(std::move(socket)) {}

  explicit operator bool() const { return static_cast<bool>(socket_); }
  int fd() const { return socket_.get(); }

  // Waits for room for at most `patience`. `descriptor`: passed along, or -1. False where the other is gone
  // or takes nothing.
  bool Send(const ShmMessage& message, int descriptor, absl::Duration patience) const;

  enum class Received { kMessage, kNothing, kGone };
  // Does not wait.
  Received Receive(ShmMessage& message) const;

 private:
  Descriptor socket_;
};

// A socket to each other rank (none to the own). Waits until all are there.
absl::StatusOr<std::vector<ShmSocket>> ConnectRanks(const ShmOptions& options);

}  // namespace ftune
