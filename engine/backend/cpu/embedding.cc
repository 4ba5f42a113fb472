#include "engine/backend/cpu/embedding.h"

#include <algorithm>
#include <cstring>

#include "engine/backend/cpu/dequant.h"

namespace ftune::cpu {
namespace {

void CopyRow(const Tensor& from, int64_t from_row, const Tensor& to, int64_t to_row) {
  std::memcpy(RowBytes(to, to_row), RowBytes(from, from_row), BytesFor(to.dtype(), to.cols()));
}

bool HasRow(const Tensor& table, int64_t row) { return row >= 0 && row < table.rows(); }

}  // namespace

void EmbeddingForward(ThreadPool& pool, const Tensor& ids, const Tensor& table, int64_t first_id,
                      const Tensor& out) {
  ParallelRows(pool, out.rows(), out.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      float* to = out.f32() + t * out.stride();
      const int64_t row = ids.i32()[t] - first_id;
      if (HasRow(table, row)) {
        ReadRow(table, row, 0, out.cols(), to);
      } else {
        std::fill_n(to, out.cols(), 0.0f);
      }
    }
  });
}

void EmbeddingBackward(ThreadPool& pool, const Tensor& ids, const Tensor& dy, int64_t first_id,
                       const Tensor& dtable) {
  // A chunk is some columns of all tokens, so that a row that occurs twice is summed in order of the tokens.
  constexpr int64_t kColumns = 64;
  ParallelRanges(pool, dy.cols(), kColumns, [&](int64_t begin, int64_t end) {
    for (int64_t t = 0; t < dy.rows(); ++t) {
      const int64_t row = ids.i32()[t] - first_id;
      if (!HasRow(dtable, row)) continue;
      const float* from = dy.f32() + t * dy.stride();
      float* to = dtable.f32() + row * dtable.stride();
      for (int64_t c = begin; c < end; ++c) to[c] += from[c];
    }
  });
}

void GatherRows(ThreadPool& pool, const Tensor& from, const Tensor& rows, const Tensor& to) {
  ParallelRows(pool, to.rows(), to.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) CopyRow(from, rows.i32()[i], to, i);
  });
}

void ScatterRows(ThreadPool& pool, const Tensor& from, const Tensor& rows, const Tensor& to) {
  ParallelRows(pool, from.rows(), from.cols(), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) CopyRow(from, i, to, rows.i32()[i]);
  });
}

}  // namespace ftune::cpu
