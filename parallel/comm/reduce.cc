#include "parallel/comm/reduce.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "base/convert.h"

namespace ftune {
namespace {

constexpr int64_t kChunk = 2048;  // elements: what stays in the first-level cache

// to = op(a, b); it may be one of them.
template <class T>
void Combine(ReduceOp op, const T* a, const T* b, int64_t count, T* to) {
  if (op == ReduceOp::kMax) {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = std::max(a[i], b[i]);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  }
}

template <class T>
void Divide(int64_t ranks, int64_t count, T* values) {
  for (int64_t i = 0; i < count; ++i) values[i] /= static_cast<T>(ranks);
}

template <class T>
void Finish(ReduceOp op, size_t sources, int64_t count, T* values) {
  if (op == ReduceOp::kAverage) Divide(static_cast<int64_t>(sources), count, values);
}

template <class T>
void ReducePlain(ReduceOp op, std::span<const std::byte* const> sources, int64_t count, std::byte* out) {
  std::array<T, kChunk> sum;
  const size_t last = sources.size() - 1;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t n = std::min(kChunk, count - begin);
    const auto at = [&](size_t source) { return reinterpret_cast<const T*>(sources[source]) + begin; };
    T* const to = reinterpret_cast<T*>(out) + begin;
    // `to` may be a source that is still to be read: only the last one goes there.
    if (last == 0 && to != at(0)) std::copy_n(at(0), n, to);
    const T* so_far = at(0);
    for (size_t s = 1; s <= last; ++s) {
      T* const next = s == last ? to : sum.data();
      Combine(op, so_far, at(s), n, next);
      so_far = next;
    }
    Finish(op, sources.size(), n, to);
  }
}

void ReduceLow(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, int64_t count,
               std::byte* out) {
  std::array<float, kChunk> sum, next;
  for (int64_t begin = 0; begin < count; begin += kChunk) {
    const int64_t n = std::min(kChunk, count - begin);
    const int64_t offset = BytesFor(dtype, begin);
    ConvertToF32(dtype, sources[0] + offset, n, sum.data());
    for (size_t s = 1; s < sources.size(); ++s) {
      ConvertToF32(dtype, sources[s] + offset, n, next.data());
      Combine(op, sum.data(), next.data(), n, sum.data());
    }
    Finish(op, sources.size(), n, sum.data());
    ConvertFromF32(dtype, sum.data(), n, out + offset);
  }
}

}  // namespace

bool IsReducible(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16 || dtype == DType::kF16 ||
         dtype == DType::kI64;
}

void Reduce(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, int64_t count,
            std::byte* out) {
  assert(IsReducible(dtype) && !sources.empty());
  switch (dtype) {
    case DType::kF32:
      return ReducePlain<float>(op, sources, count, out);
    case DType::kF64:
      return ReducePlain<double>(op, sources, count, out);
    case DType::kI64:
      return ReducePlain<int64_t>(op, sources, count, out);
    default:
      return ReduceLow(dtype, op, sources, count, out);
  }
}

void SumToAverage(DType dtype, int64_t ranks, int64_t count, std::byte* values) {
  switch (dtype) {
    case DType::kF32:
      return Divide(ranks, count, reinterpret_cast<float*>(values));
    case DType::kF64:
      return Divide(ranks, count, reinterpret_cast<double*>(values));
    default:
      assert(dtype == DType::kI64);
      return Divide(ranks, count, reinterpret_cast<int64_t*>(values));
  }
}

}  // namespace ftune
