// A rank's TCP connections to the others of its group, by gloo: bytes to and from peers, and errors as
// statuses. What gloo throws, and that it ends the process where sizes differ, stays behind this file:
// callers agree on sizes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/comm/late_ranks.h"
#include "parallel/launch/key_value_store.h"

namespace ftune {

struct GlooOptions {
  int rank = 0;
  int size = 1;
  // Where the ranks find each other, and leave why the group failed; used by several threads at a time.
  std::shared_ptr<KeyValueStore> store;
  std::string prefix;                          // of the group's keys in the store: of no other group
  std::string address;                         // of this host, to which the others connect
  absl::Duration timeout = absl::Minutes(10);  // until all have joined
  // A rank of which nothing is heard for so long is lost.
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  bool first_serves = false;  // the store is the first rank's, and ends with it
  std::vector<int> names;     // what the ranks are called in messages; empty: 0, 1, …
};

// Bytes to or from a peer, not owned.
struct GlooTransfer {
  enum class Way : uint8_t { kSend, kReceive };
  Way way = Way::kSend;
  int peer = 0;
  std::byte* data = nullptr;
  int64_t bytes = 0;  // more than 0; a receiver's at least the sender's
};

// Why a transfer was not done.
struct GlooFailure {
  enum class Kind : uint8_t { kTimeout, kClosed, kAborted };
  Kind kind = Kind::kAborted;
  int peer = 0;
  // The others whose transfers are not done, and `peer` after a time-out.
  std::vector<int> missing;
};

class GlooLink {
 public:
  // Returns when all are connected; an error names who is missing.
  static absl::StatusOr<std::shared_ptr<GlooLink>> Connect(const GlooOptions& options);
  virtual ~GlooLink() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int name(int rank) const = 0;

  // Transfers that are under way. Their memory must stay until Wait returned or this is gone.
  class Round {
   public:
    virtual ~Round() = default;
    // Until all are done, in their order, or the first is not within `timeout`.
    virtual std::optional<GlooFailure> Wait(absl::Duration timeout) = 0;
  };
  // Between two ranks, the k-th send on a channel meets the k-th receive on it. Of any thread, one a channel.
  virtual std::unique_ptr<Round> Start(uint64_t channel, std::span<const GlooTransfer> transfers) = 0;

  // The group has failed, from any thread: the first status stays, the others are told it, every wait ends
  // and all connections are closed.
  virtual void Fail(const absl::Status& cause) = 0;
  // The same, for a connection that another rank closed: by what that rank, or another, told of, else because
  // it is gone. `report` is what this rank waited for.
  virtual void FailClosed(int peer, const LateReport& report) = 0;
  // The same, after a time-out: by what all say that they wait for.
  virtual void FailLate(const LateReport& report) = 0;
  virtual absl::Status status() const = 0;
};

}  // namespace ftune
