#include "parallel/comm/call.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/strings.h"

namespace ftune {
namespace {

uint64_t HashCounts(const std::vector<int64_t>& counts) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const int64_t count : counts) hash = (hash ^ static_cast<uint64_t>(count)) * 0x100000001b3u;
  return counts.empty() ? 0 : hash;
}

}  // namespace

std::string_view Name(CallKind kind) {
  switch (kind) {
    case CallKind::kAllReduce:
      return "all_reduce";
    case CallKind::kReduceScatter:
      return "reduce_scatter";
    case CallKind::kAllGather:
      return "all_gather";
    case CallKind::kBroadcast:
      return "broadcast";
    case CallKind::kAllToAll:
      return "all_to_all";
    case CallKind::kSend:
      return "send";
    case CallKind::kReceive:
      return "receive";
    case CallKind::kBarrier:
      return "barrier";
  }
  return "";
}

std::string_view Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return "sum";
    case ReduceOp::kMax:
      return "max";
    case ReduceOp::kAverage:
      return "average";
  }
  return "";
}

std::string CallSignature::Describe() const {
  std::string text = StrCat(Name(kind), "(");
  if (kind == CallKind::kAllReduce || kind == CallKind::kReduceScatter) StrAppend(text, Name(op), ", ");
  if (root >= 0) StrAppend(text, kind == CallKind::kSend ? "to" : "from", " rank ", root, ", ");
  if (kind != CallKind::kBarrier) StrAppend(text, Name(dtype));
  if (elements > 0) StrAppend(text, ", ", elements, " elements");
  return StrCat(text, ") #", sequence);
}

bool AreOneCall(const CallSignature& a, const CallSignature& b) {
  CallSignature partner = a;
  if (a.kind == CallKind::kSend || a.kind == CallKind::kReceive) {
    partner.kind = a.kind == CallKind::kSend ? CallKind::kReceive : CallKind::kSend;
    partner.root = b.root;
  }
  return partner == b;
}

Call Call::AllReduce(const Buffer& buffer, ReduceOp op) {
  return {.kind = CallKind::kAllReduce, .op = op, .in = buffer, .out = buffer};
}

Call Call::ReduceScatter(const Buffer& in, const Buffer& out, std::vector<int64_t> counts, ReduceOp op) {
  return {.kind = CallKind::kReduceScatter, .op = op, .in = in, .out = out, .counts = std::move(counts)};
}

Call Call::AllGather(const Buffer& in, const Buffer& out, std::vector<int64_t> counts) {
  return {.kind = CallKind::kAllGather, .in = in, .out = out, .counts = std::move(counts)};
}

Call Call::Broadcast(const Buffer& buffer, int root) {
  return {.kind = CallKind::kBroadcast, .in = buffer, .out = buffer, .peer = root};
}

Call Call::AllToAll(const Buffer& in, std::vector<int64_t> in_counts, const Buffer& out,
                    std::vector<int64_t> out_counts) {
  return {.kind = CallKind::kAllToAll,
          .in = in,
          .out = out,
          .counts = std::move(in_counts),
          .out_counts = std::move(out_counts)};
}

Call Call::Send(const Buffer& buffer, int to) { return {.kind = CallKind::kSend, .in = buffer, .peer = to}; }

Call Call::Receive(const Buffer& buffer, int from) {
  return {.kind = CallKind::kReceive, .out = buffer, .peer = from};
}

Call Call::Barrier() { return {.kind = CallKind::kBarrier}; }

CallSignature Call::signature() const {
  if (part_of) return *part_of;
  CallSignature s = {.sequence = sequence, .kind = kind, .op = op, .dtype = in.dtype};
  switch (kind) {
    case CallKind::kAllReduce:
      s.elements = in.count;
      break;
    case CallKind::kBroadcast:
      s.elements = in.count;
      s.root = peer;
      break;
    case CallKind::kReduceScatter:
    case CallKind::kAllGather:
      s.elements = std::accumulate(counts.begin(), counts.end(), int64_t{0});
      s.counts = HashCounts(counts);
      break;
    case CallKind::kSend:
      s.elements = in.count;
      s.root = peer;
      break;
    case CallKind::kReceive:
      s.dtype = out.dtype;
      s.elements = out.count;
      s.root = peer;
      break;
    case CallKind::kAllToAll:
    case CallKind::kBarrier:
      break;
  }
  return s;
}

std::vector<int64_t> Offsets(const std::vector<int64_t>& counts) {
  std::vector<int64_t> offsets(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), offsets.begin() + 1);
  return offsets;
}

std::vector<int64_t> EvenCounts(int64_t total, int ranks, int64_t unit) {
  const int64_t units = (total + unit - 1) / unit;
  std::vector<int64_t> counts;
  int64_t left = total;
  for (int rank = 0; rank < ranks; ++rank) {
    const int64_t share = std::min(left, (units / ranks + (rank < units % ranks ? 1 : 0)) * unit);
    counts.push_back(share);
    left -= share;
  }
  return counts;
}

}  // namespace ftune
