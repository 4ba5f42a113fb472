#include "engine/model/tensor_axis.h"

#include <cassert>
#include <utility>

namespace ftune {
namespace {

Buffer BufferOf(Stream stream, const Tensor& x) {
  assert(x.contiguous());
  return {.data = x.bytes(), .count = x.size(), .dtype = x.dtype(), .stream = stream};
}

}  // namespace

std::vector<int64_t> TensorAxis::RowCounts(int64_t rows) const { return EvenCounts(rows, size()); }

int64_t TensorAxis::FirstRow(int64_t rows) const {
  return sequence_parallel_ ? Offsets(RowCounts(rows))[position_.rank] : 0;
}

int64_t TensorAxis::OwnRowCount(int64_t rows) const {
  return sequence_parallel_ ? RowCounts(rows)[position_.rank] : rows;
}

Tensor TensorAxis::OwnRows(const Tensor& all) const {
  if (!sequence_parallel_) return all;
  return all.Rows(FirstRow(all.rows()), OwnRowCount(all.rows()));
}

Tensor TensorAxis::OwnCols(const Tensor& all) const {
  if (!sequence_parallel_) return all;
  return all.Cols(FirstRow(all.cols()), RowCounts(all.cols())[position_.rank]);
}

Tensor TensorAxis::Gathered(Backend& backend, Stream stream, const Tensor& own, int64_t rows) const {
  if (!sequence_parallel_) return own;
  const Tensor all = backend.Allocate(rows, own.cols(), Category::kActivations);
  std::vector<int64_t> counts = RowCounts(rows);
  assert(own.rows() == counts[position_.rank]);
  for (int64_t& count : counts) count *= own.cols();
  Run(Call::AllGather(BufferOf(stream, own), BufferOf(stream, all), std::move(counts)));
  return all;
}

Tensor TensorAxis::Summed(Stream stream, const Tensor& x) const {
  if (!sequence_parallel_) {
    AllReduce(stream, x);
    return x;
  }
  const Tensor own = OwnRows(x);
  std::vector<int64_t> counts = RowCounts(x.rows());
  for (int64_t& count : counts) count *= x.cols();
  Run(Call::ReduceScatter(BufferOf(stream, x), BufferOf(stream, own), std::move(counts)));
  return own;
}

void TensorAxis::AllGather(std::span<const std::byte> own, const std::vector<int64_t>& counts,
                           std::span<std::byte> all) const {
  // The call writes to nothing but its output.
  auto* from = const_cast<std::byte*>(own.data());
  Run(Call::AllGather({.data = from, .count = static_cast<int64_t>(own.size()), .dtype = DType::kU8},
                      {.data = all.data(), .count = static_cast<int64_t>(all.size()), .dtype = DType::kU8},
                      counts));
}

void TensorAxis::AllReduce(Stream stream, const Tensor& x, ReduceOp op) const {
  if (comm_ != nullptr) Run(Call::AllReduce(BufferOf(stream, x), op));
}

Tensor TensorAxis::GatheredColumns(Backend& backend, Stream stream, const Tensor& own,
                                   const Dimension& columns) const {
  if (!columns.sharded()) return own;
  const Tensor parts = backend.Allocate(1, own.rows() * columns.size(), Category::kActivations);
  const Tensor all = backend.Allocate(own.rows(), columns.size(), Category::kActivations);
  std::vector<int64_t> counts;
  for (int rank = 0; rank < size(); ++rank) counts.push_back(own.rows() * columns.On(rank).local_size());
  Run(Call::AllGather(BufferOf(stream, own), BufferOf(stream, parts), counts));
  int64_t first = 0;
  for (int rank = 0; rank < size(); ++rank) {
    const Dimension held = columns.On(rank);
    const Tensor part = parts.Cols(first, counts[rank]).Reshape(own.rows(), held.local_size());
    int64_t column = 0;
    for (const HeldRange& range : held.held()) {
      backend.Convert(stream, part.Cols(column, range.count), all.Cols(range.begin, range.count));
      column += range.count;
    }
    first += counts[rank];
  }
  return all;
}

// The status stays in the communicator.
void TensorAxis::Run(Call call) const {
  if (comm_ != nullptr) comm_->Run(std::move(call)).IgnoreError();
}

}  // namespace ftune
