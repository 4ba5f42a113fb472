// How attention is cut into tasks and tiles. All of it follows from the shape and the segments, never from
// the number of threads, so that results do not depend on that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/ops.h"

namespace ftune::cpu {

inline constexpr int64_t kTileQueries = 144;
inline constexpr int64_t kTileKeys = 128;
// Vectors are at most this long: widths are padded to it, and rows of scores have as much room at both ends.
inline constexpr int64_t kLanePad = 16;
// Of a transposed tile's rows; not a power of two, which would crowd them into few sets of the cache.
inline constexpr int64_t kKeyStride = kTileKeys + kLanePad;
inline constexpr int64_t kScoreStride = kLanePad + kTileKeys + kLanePad;
// Rows of scores are zeroed this far beyond what they see: the rows of a strip share their widest extent.
inline constexpr int64_t kScoreMargin = 6;
// A tile is cut into whole strips, and every part of a scratch is whole cache lines.
static_assert(kTileQueries % kScoreMargin == 0 && kTileQueries % kLanePad == 0 && kTileKeys % kLanePad == 0);

inline int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
inline int64_t PaddedDim(const AttentionShape& shape) { return RoundUp(shape.head_dim, kLanePad); }
inline int64_t GroupSize(const AttentionShape& shape) { return shape.heads / shape.kv_heads; }

struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Calls body(Range) for [range] cut into equal parts of at most `most`, their size a multiple of `unit`,
// which divides `most`.
template <class Body>
void ForTiles(Range range, int64_t most, int64_t unit, const Body& body) {
  if (range.size() <= 0) return;
  const int64_t tiles = (range.size() + most - 1) / most;
  const int64_t size = RoundUp((range.size() + tiles - 1) / tiles, unit);
  for (int64_t begin = range.begin; begin < range.end; begin += size) {
    body(Range{begin, std::min(begin + size, range.end)});
  }
}

// Who sees whom in a segment, in indices of its own queries and keys.
class Visibility {
 public:
  Visibility(const AttentionSegment& segment, int64_t window)
      : keys_(segment.k_length), offset_(segment.k_length - segment.q_length), window_(window) {}

  // Keys that query i sees.
  Range Keys(int64_t i) const {
    const int64_t position = i + offset_;
    const int64_t end = std::clamp<int64_t>(position + 1, 0, keys_);
    return {window_ > 0 ? std::clamp<int64_t>(position + 1 - window_, 0, end) : 0, end};
  }
  // Of those, the ones in `tile`, counted from its begin.
  Range KeysIn(Range tile, int64_t i) const {
    const Range keys = Keys(i);
    return {std::clamp(keys.begin, tile.begin, tile.end) - tile.begin,
            std::clamp(keys.end, tile.begin, tile.end) - tile.begin};
  }
  // Queries in `tile`, counted from its begin, that see some of `keys`.
  Range QueriesIn(Range tile, Range keys) const {
    const int64_t begin = keys.begin - offset_;
    const int64_t end = window_ > 0 ? keys.end - 1 + window_ - offset_ : tile.end;
    const int64_t from = std::clamp(begin, tile.begin, tile.end);
    return {from - tile.begin, std::max(from, std::clamp(end, tile.begin, tile.end)) - tile.begin};
  }
  int64_t offset() const { return offset_; }

 private:
  int64_t keys_;
  int64_t offset_;  // position of query 0 among the keys
  int64_t window_;
};

struct ForwardTask {
  const AttentionSegment* segment;
  int64_t kv_head;
  Range queries;  // of the segment, at most kTileQueries
};
std::vector<ForwardTask> ForwardTasks(const AttentionShape& shape,
                                      const std::vector<AttentionSegment>& segments);

struct BackwardTask {
  const AttentionSegment* segment;
  int64_t kv_head;
  Range queries;
  Range keys;
};
// Tasks of one phase share no query (with its heads) and no key; the phases run one after another. A long
// segment is cut into chunks of positions, and phase p pairs each chunk of keys with the p-th chunk of
// queries after it.
std::vector<std::vector<BackwardTask>> BackwardPhases(const AttentionShape& shape,
                                                      const std::vector<AttentionSegment>& segments);

// Scratch of one thread.
int64_t ForwardScratchFloats(const AttentionShape& shape);
int64_t BackwardScratchFloats(const AttentionShape& shape);

// Hands out parts of a thread's scratch, each a whole number of cache lines.
class ScratchParts {
 public:
  explicit ScratchParts(float* base) : next_(base) {}
  float* Take(int64_t floats) {
    float* part = next_;
    next_ += RoundUp(floats, kLanePad);
    return part;
  }

 private:
  float* next_;
};

// Row ranges [begin, end) of [0, rows) that no segment's queries cover.
std::vector<Range> UncoveredQueries(const std::vector<AttentionSegment>& segments, int64_t rows);

}  // namespace ftune::cpu
