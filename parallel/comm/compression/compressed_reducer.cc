#include "parallel/comm/compression/compressed_reducer.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "base/error.h"

namespace ftune {
namespace {

Buffer Bytes(std::vector<std::byte>& bytes) { return {bytes.data(), std::ssize(bytes), DType::kU8, {}}; }

Buffer Floats(std::span<float> values) {
  return {reinterpret_cast<std::byte*>(values.data()), std::ssize(values), DType::kF32, {}};
}

}  // namespace

void CompressedReducer::CompressOwing(std::span<float> values, std::span<float> residual, std::byte* out) {
  for (size_t i = 0; i < values.size(); ++i) residual[i] += values[i];
  compressor_.Compress(residual, out);
  compressor_.Decompress(out, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const float lost = residual[i] - values[i];
    // A step that overflowed is not made, and must not be owed for ever.
    residual[i] = std::isfinite(lost) ? lost : 0.0f;
  }
}

CompressedReducer::Exchange CompressedReducer::ExchangeOf(const std::vector<int64_t>& counts) const {
  const int me = comm_.rank();
  Exchange exchange;
  for (int r = 0; r < comm_.size(); ++r) {
    exchange.out_bytes.push_back(r == me ? 0 : compressor_.BytesFor(counts[r]));
    exchange.in_bytes.push_back(r == me ? 0 : compressor_.BytesFor(counts[me]));
  }
  return exchange;
}

absl::Status CompressedReducer::CallReduceScatter(const std::vector<int64_t>& counts) {
  const auto [out_bytes, in_bytes] = ExchangeOf(counts);
  const Buffer out = {.count = Offsets(out_bytes).back(), .dtype = DType::kU8};
  const Buffer in = {.count = Offsets(in_bytes).back(), .dtype = DType::kU8};
  return comm_.Run(Call::AllToAll(out, out_bytes, in, in_bytes));
}

absl::Status CompressedReducer::CallAllReduce(const std::vector<int64_t>& counts) {
  if (comm_.size() == 1) return absl::OkStatus();
  FTUNE_RETURN_IF_ERROR(CallReduceScatter(counts));
  const std::vector<int64_t> bytes = BytesOf(counts);
  const Buffer out = {.count = bytes[comm_.rank()], .dtype = DType::kU8};
  return comm_.Run(Call::AllGather(out, {.count = Offsets(bytes).back(), .dtype = DType::kU8}, bytes));
}

std::vector<int64_t> CompressedReducer::BytesOf(const std::vector<int64_t>& counts) const {
  std::vector<int64_t> bytes;
  for (const int64_t count : counts) bytes.push_back(compressor_.BytesFor(count));
  return bytes;
}

absl::Status CompressedReducer::ReduceScatter(std::span<const float> values,
                                              const std::vector<int64_t>& counts, std::span<float> out,
                                              Residuals& residuals) {
  const int me = comm_.rank();
  const std::vector<int64_t> offsets = Offsets(counts);
  assert(offsets.back() == std::ssize(values) && residuals.sent.size() == values.size());
  const auto [out_bytes, in_bytes] = ExchangeOf(counts);
  const std::vector<int64_t> out_at = Offsets(out_bytes), in_at = Offsets(in_bytes);
  out_.resize(out_at.back());
  in_.resize(in_at.back());
  for (int r = 0; r < comm_.size(); ++r) {
    if (r == me) continue;
    work_.assign(values.begin() + offsets[r], values.begin() + offsets[r + 1]);
    CompressOwing(work_, residuals.sent.subspan(offsets[r], counts[r]), out_.data() + out_at[r]);
  }
  FTUNE_RETURN_IF_ERROR(comm_.Run(Call::AllToAll(Bytes(out_), out_bytes, Bytes(in_), in_bytes)));
  const std::vector<float> own(values.begin() + offsets[me],
                               values.begin() + offsets[me + 1]);  // `out` may be it
  std::fill(out.begin(), out.end(), 0.0f);
  work_.resize(own.size());
  for (int r = 0; r < comm_.size(); ++r) {
    if (r != me) compressor_.Decompress(in_.data() + in_at[r], work_);
    const std::vector<float>& part = r == me ? own : work_;
    for (size_t i = 0; i < out.size(); ++i) out[i] += part[i];
  }
  return absl::OkStatus();
}

absl::Status CompressedReducer::AllReduce(std::span<float> values, const std::vector<int64_t>& counts,
                                          Residuals& residuals) {
  if (comm_.size() == 1) return absl::OkStatus();
  const std::vector<int64_t> offsets = Offsets(counts);
  const std::span<float> share = values.subspan(offsets[comm_.rank()], counts[comm_.rank()]);
  FTUNE_RETURN_IF_ERROR(ReduceScatter(values, counts, share, residuals));
  const std::vector<int64_t> bytes = BytesOf(counts);
  out_.resize(bytes[comm_.rank()]);
  CompressOwing(share, residuals.owned, out_.data());
  in_.resize(Offsets(bytes).back());
  FTUNE_RETURN_IF_ERROR(comm_.Run(Call::AllGather(Bytes(out_), Bytes(in_), bytes)));
  int64_t at = 0;
  for (int r = 0; r < comm_.size(); ++r) {
    compressor_.Decompress(in_.data() + at, values.subspan(offsets[r], counts[r]));
    at += bytes[r];
  }
  return absl::OkStatus();
}

absl::Status CompressedReducer::TakeOwed(std::span<float> share, const std::vector<int64_t>& counts,
                                         Residuals& residuals) {
  work_.resize(share.size());
  FTUNE_RETURN_IF_ERROR(comm_.Run(Call::ReduceScatter(Floats(residuals.sent), Floats(work_), counts)));
  for (size_t i = 0; i < share.size(); ++i) {
    share[i] += work_[i] + (residuals.owned.empty() ? 0.0f : residuals.owned[i]);
  }
  std::fill(residuals.sent.begin(), residuals.sent.end(), 0.0f);
  std::fill(residuals.owned.begin(), residuals.owned.end(), 0.0f);
  return absl::OkStatus();
}

}  // namespace ftune
