// One collective, as one rank makes it: what every transport is given, and what must be equal on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/stream.h"

namespace ftune {

enum class CallKind : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kSend,
  kReceive,
  kBarrier,
};
enum class ReduceOp : uint8_t { kSum, kMax, kAverage };

std::string_view Name(CallKind kind);
std::string_view Name(ReduceOp op);

// Elements side by side in memory, not owned.
struct Buffer {
  std::byte* data = nullptr;
  int64_t count = 0;  // elements
  DType dtype = DType::kF32;
  Stream stream;

  int64_t bytes() const { return BytesFor(dtype, count); }
};

// What a group's ranks must agree on before a call moves anything.
struct CallSignature {
  uint64_t sequence = 0;  // of the group's calls; of sends and receives, of those between the two
  CallKind kind = CallKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kF32;
  int32_t root = -1;     // of a broadcast; of a send or receive the other rank
  int64_t elements = 0;  // of all ranks together; 0 for an all-to-all, whose counts differ
  uint64_t counts = 0;   // hash of the elements of each rank

  bool operator==(const CallSignature&) const = default;
  // "all_reduce(sum, f32, 1024 elements) #17"
  std::string Describe() const;
};
// Whether two ranks meet in one call: they make the same, or the one sends what the other receives.
bool AreOneCall(const CallSignature& a, const CallSignature& b);

// Counts are elements, one entry a rank. Reductions of bf16 and f16 are made in f32 and rounded once; all
// add in the order of the ranks, so that every rank has the same bits, and a repeated run has them again.
struct Call {
  CallKind kind = CallKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  Buffer in;
  Buffer out;
  std::vector<int64_t> counts;      // reduce-scatter, all-gather: of each rank; all-to-all: sent to each rank
  std::vector<int64_t> out_counts;  // all-to-all: received from each rank
  int peer = -1;                    // root, or the other rank of a send or receive
  uint64_t sequence = 0;            // set by the communicator
  std::optional<CallSignature>
      part_of;  // the call that this one is a step of: what the ranks compare instead

  // In place. f32, f64, bf16, f16, i64.
  static Call AllReduce(const Buffer& buffer, ReduceOp op = ReduceOp::kSum);
  // in: counts of all ranks side by side; out: this rank's share, which may be its place in `in`. What else
  // is in `in` is lost.
  static Call ReduceScatter(const Buffer& in, const Buffer& out, std::vector<int64_t> counts,
                            ReduceOp op = ReduceOp::kSum);
  // out: the shares of all ranks side by side; in: this rank's share, which may be its place in `out`. Any
  // dtype.
  static Call AllGather(const Buffer& in, const Buffer& out, std::vector<int64_t> counts);
  static Call Broadcast(const Buffer& buffer, int root);
  // in and out may not overlap.
  static Call AllToAll(const Buffer& in, std::vector<int64_t> in_counts, const Buffer& out,
                       std::vector<int64_t> out_counts);
  // Between two ranks, in the order of the calls.
  static Call Send(const Buffer& buffer, int to);
  static Call Receive(const Buffer& buffer, int from);
  static Call Barrier();

  CallSignature signature() const;
  bool point_to_point() const { return kind == CallKind::kSend || kind == CallKind::kReceive; }
};

// Where each rank's share begins, and behind the last the total.
std::vector<int64_t> Offsets(const std::vector<int64_t>& counts);
// `total` cut into shares that differ by at most one `unit`, of which all but the last non-empty one are
// multiples.
std::vector<int64_t> EvenCounts(int64_t total, int ranks, int64_t unit = 1);

}  // namespace ftune
