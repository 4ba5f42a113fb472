#include "engine/backend/cpu/attention_plan.h"

namespace ftune::cpu {
namespace {

int64_t ChunkSize(int64_t length) {
  constexpr int64_t kLongSegment = 1024;
  return length <= kLongSegment ? kTileKeys : 2 * kTileKeys;
}

}  // namespace

std::vector<ForwardTask> ForwardTasks(const AttentionShape& shape,
                                      const std::vector<AttentionSegment>& segments) {
  std::vector<ForwardTask> tasks;
  for (const AttentionSegment& segment : segments) {
    for (int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
      ForTiles({0, segment.q_length}, kTileQueries, kScoreMargin, [&](Range queries) {
        tasks.push_back({&segment, kv_head, queries});
      });
    }
  }
  // The longest first, so that the threads end together.
  std::stable_sort(tasks.begin(), tasks.end(), [&](const ForwardTask& a, const ForwardTask& b) {
    const auto work = [&](const ForwardTask& t) {
      return t.queries.size() * Visibility(*t.segment, shape.window).Keys(t.queries.end - 1).size();
    };
    return work(a) > work(b);
  });
  return tasks;
}

std::vector<std::vector<BackwardTask>> BackwardPhases(const AttentionShape& shape,
                                                      const std::vector<AttentionSegment>& segments) {
  std::vector<std::vector<BackwardTask>> phases;
  for (const AttentionSegment& segment : segments) {
    const int64_t chunk = ChunkSize(segment.k_length);
    const int64_t offset = int64_t{segment.k_length} - segment.q_length;
    const int64_t chunks = (segment.k_length + chunk - 1) / chunk;
    for (int64_t key_chunk = 0; key_chunk < chunks; ++key_chunk) {
      const Range keys = {key_chunk * chunk, std::min<int64_t>((key_chunk + 1) * chunk, segment.k_length)};
      for (int64_t query_chunk = key_chunk; query_chunk < chunks; ++query_chunk) {
        const int64_t begin = std::max<int64_t>(0, query_chunk * chunk - offset);
        const int64_t end = std::min<int64_t>((query_chunk + 1) * chunk - offset, segment.q_length);
        if (begin >= end) continue;
        if (Visibility(segment, shape.window).Keys(begin).begin >= keys.end) continue;
        const size_t phase = query_chunk - key_chunk;
        if (phases.size() <= phase) phases.resize(phase + 1);
        for (int64_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
          phases[phase].push_back({&segment, kv_head, {begin, end}, keys});
        }
      }
    }
  }
  for (std::vector<BackwardTask>& phase : phases) {
    std::stable_sort(phase.begin(), phase.end(), [](const BackwardTask& a, const BackwardTask& b) {
      return a.queries.size() * a.keys.size() > b.queries.size() * b.keys.size();
    });
  }
  return phases;
}

int64_t ForwardScratchFloats(const AttentionShape& shape) {
  const int64_t dim = PaddedDim(shape);
  return dim * (kKeyStride + kTileKeys) + kScoreMargin * kScoreStride +
         GroupSize(shape) * kTileQueries * (dim + 2);
}

int64_t BackwardScratchFloats(const AttentionShape& shape) {
  const int64_t dim = PaddedDim(shape);
  return dim * (2 * kKeyStride + 3 * kTileKeys + 2 * kTileQueries + kScoreMargin) +
         kTileQueries * (2 * kScoreStride + 2);
}

std::vector<Range> UncoveredQueries(const std::vector<AttentionSegment>& segments, int64_t rows) {
  std::vector<Range> covered;
  for (const AttentionSegment& s : segments) covered.push_back({s.q_begin, int64_t{s.q_begin} + s.q_length});
  std::sort(covered.begin(), covered.end(), [](Range a, Range b) { return a.begin < b.begin; });
  std::vector<Range> gaps;
  int64_t next = 0;
  for (const Range& range : covered) {
    if (range.begin > next) gaps.push_back({next, range.begin});
    next = std::max(next, range.end);
  }
  if (next < rows) gaps.push_back({next, rows});
  return gaps;
}

}  // namespace ftune::cpu
