#include "engine/optim/piece.h"

#include <algorithm>
#include <utility>

namespace ftune {
namespace {

constexpr int64_t kLine = 64;     // tensors start on cache lines
constexpr int64_t kGrain = 4096;  // elements: what runs are cut into multiples of

int64_t RoundUp(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

// The tensors of `count` elements of a run, from byte `offset` on.
std::vector<PieceTensor> TensorsOf(const Shard& shard, const ShardRun& run, int64_t count, int64_t offset) {
  std::vector<PieceTensor> tensors;
  const auto add = [&](std::string_view name, DType dtype, int64_t size) {
    tensors.push_back({name, dtype, offset, size});
    offset += RoundUp(BytesFor(dtype, size), kLine);
  };
  if (shard.master) add(kMasterName, DType::kF32, count);
  for (const StatePlace& place : run.state) {
    const StateSpec& spec = shard.state[place.tensor];
    add(spec.name, spec.dtype, run.rule->elementwise() ? count : place.size);
  }
  return tensors;
}

int64_t EndOf(const std::vector<PieceTensor>& tensors, int64_t begin) {
  if (tensors.empty()) return begin;
  return tensors.back().offset + RoundUp(BytesFor(tensors.back().dtype, tensors.back().size), kLine);
}

// Elements of a run of which `limit` bytes hold the state; 0 if none, all if there is none.
int64_t ElementsIn(const Shard& shard, const ShardRun& run, int64_t left, int64_t limit) {
  if (EndOf(TensorsOf(shard, run, left, 0), 0) <= limit) return left;
  if (!run.rule->elementwise()) return 0;
  const int64_t grain = EndOf(TensorsOf(shard, run, kGrain, 0), 0);
  return std::min(left, limit / grain * kGrain);
}

}  // namespace

std::vector<Piece> CutIntoPieces(const std::vector<Shard>& shards, int64_t limit) {
  std::vector<Piece> pieces;
  int64_t total = 0;
  for (auto shard = shards.rbegin(); shard != shards.rend(); ++shard) {
    Piece piece = {&*shard, {}, 0};
    for (const ShardRun& run : shard->runs) {
      const ParameterGroup& group = run.group;
      for (int64_t done = 0; done < group.count;) {
        int64_t count =
            ElementsIn(*shard, run, group.count - done, std::max<int64_t>(0, limit - piece.bytes));
        if (count == 0 && !piece.parts.empty()) {
          pieces.push_back(std::exchange(piece, {&*shard, {}, 0}));
          continue;
        }
        if (count == 0) count = group.count - done;  // alone, and too large still
        PiecePart part = {&run, group.begin + done, count, TensorsOf(*shard, run, count, piece.bytes)};
        const int64_t end = EndOf(part.tensors, piece.bytes);
        total += end - piece.bytes;
        piece.bytes = end;
        piece.parts.push_back(std::move(part));
        done += count;
      }
    }
    if (!piece.parts.empty()) pieces.push_back(std::move(piece));
  }
  if (total == 0) pieces.clear();
  return pieces;
}

}  // namespace ftune
