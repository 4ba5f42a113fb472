// What a rank lays open to the other ranks of a group: its progress, the call that it makes, and room for
// buffers that are not in shared memory themselves. Only its rank writes it; all zero is its beginning.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "parallel/comm/call.h"
#include "parallel/comm/shm_counter.h"

namespace ftune {

// Buffers of collectives up to this go with the call itself.
inline constexpr int64_t kShmInlineBytes = 8 << 10;
// Larger ones that are not in shared memory are copied through two pieces of this size, one of which is
// filled while the other is read.
inline constexpr int64_t kShmStageBytes = 512 << 10;
// What is sent from one rank to another that way is copied in smaller pieces, of which the two make a ring:
// so that the one copies in what the other copies out.
inline constexpr int64_t kShmSendBytes = 256 << 10;
inline constexpr int64_t kShmSendPieces = 2 * kShmStageBytes / kShmSendBytes;
inline constexpr int kShmMaxRanks = 512;  // whose counts fit beside a call

// Where the others find a buffer.
struct ShmPlace {
  enum Kind : uint32_t { kInline, kMemory, kStage };
  Kind kind = kInline;
  uint64_t memory = 0;  // of this rank: its number and where in it
  int64_t offset = 0;
};

// A call. There are two, used in turn: a rank may begin its next call while others still read the last.
struct ShmSlot {
  CallSignature signature;
  ShmPlace place;
  alignas(64) std::byte inlined[kShmInlineBytes];
};

// What a rank sends to, and takes from, another one.
struct ShmChannel {
  struct Mail {
    CallSignature signature;
    ShmPlace place;
  };
  ShmCounter sent;
  ShmCounter taken;
  Mail send[2];  // in turn, as slots
  Mail receive[2];
};

// What a rank waits for, for the others to see whether it waits for them while they wait for it. While
// `version` is odd; it then names the wait.
struct alignas(64) ShmWait {
  enum Counter : uint32_t { kProgress, kSent, kTaken };
  std::atomic<uint32_t> version;
  std::atomic<int32_t> peer;  // whose counter; -1: that of every other rank
  std::atomic<Counter> counter;
  std::atomic<uint32_t> target;
  CallSignature call;  // as messages name it
};

struct ShmControl {
  ShmCounter progress;  // through the collectives of the group, whose steps are the same on all ranks
  std::atomic<bool> left;
  ShmWait wait;
  ShmSlot slots[2];

  // Behind it: a channel for each rank, and from the next page on the two pieces.
  ShmChannel& channel(int rank) { return reinterpret_cast<ShmChannel*>(this + 1)[rank]; }
  // That `rank` waits for.
  ShmCounter& counter(ShmWait::Counter which, int rank) {
    if (which == ShmWait::kProgress) return progress;
    return which == ShmWait::kSent ? channel(rank).sent : channel(rank).taken;
  }
  std::byte* stage(int ranks, int64_t chunk) {
    return reinterpret_cast<std::byte*>(this) + StageOffset(ranks) + chunk % 2 * kShmStageBytes;
  }

  static int64_t StageOffset(int ranks) {
    const auto bytes = static_cast<int64_t>(sizeof(ShmControl) + sizeof(ShmChannel) * ranks);
    return (bytes + 4095) / 4096 * 4096;
  }
  static int64_t Bytes(int ranks) { return StageOffset(ranks) + 2 * kShmStageBytes; }
};

}  // namespace ftune
