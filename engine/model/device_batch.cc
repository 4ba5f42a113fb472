#include "engine/model/device_batch.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace ftune {
namespace {

Tensor UploadInts(Backend& backend, Stream stream, const std::vector<int32_t>& values, int64_t capacity) {
  const Tensor tensor = backend.Allocate(DType::kI32, 1, capacity, Category::kBuffers);
  if (!values.empty()) {
    backend.Upload(stream, std::as_bytes(std::span(values)),
                   tensor.Cols(0, static_cast<int64_t>(values.size())));
  }
  return tensor;
}

// The rows of the batch's positions.
std::vector<int32_t> RowsOf(const Batch& batch, const PositionRows& rows) {
  std::vector<int32_t> positions = batch.positions;
  for (const Segment& s : batch.segments) {
    const int32_t offset = static_cast<int32_t>(rows.OffsetFor(s.length));
    for (int32_t t = s.begin; t < s.begin + s.length; ++t) positions[t] += offset;
  }
  return positions;
}

}  // namespace

DeviceBatch UploadBatch(Backend& backend, Stream stream, const Batch& batch,
                        const PositionRows& position_rows) {
  DeviceBatch device;
  device.tokens = batch.tokens();
  device.first_token = batch.first_token;
  device.trained_tokens = batch.trained_tokens;
  std::vector<int32_t> rows, labels;
  for (size_t t = 0; t < batch.labels.size(); ++t) {
    if (batch.labels[t] == kIgnoreLabel) continue;
    rows.push_back(static_cast<int32_t>(t));
    labels.push_back(batch.labels[t]);
  }
  device.ids = UploadInts(backend, stream, batch.ids, device.tokens);
  device.positions = UploadInts(backend, stream, RowsOf(batch, position_rows), device.tokens);
  device.trained_rows = UploadInts(backend, stream, rows, device.tokens);
  device.trained_labels = UploadInts(backend, stream, labels, device.tokens);
  for (const Segment& s : batch.segments) {
    const auto labels_begin = batch.labels.begin() + s.begin;
    const bool trained = std::any_of(labels_begin, labels_begin + s.length,
                                     [](int32_t label) { return label != kIgnoreLabel; });
    if (trained) device.segments.push_back({s.begin, s.length, s.begin, s.length});
  }
  return device;
}

DeviceBatch UploadTokens(Backend& backend, Stream stream, const std::vector<int32_t>& ids, int64_t cached,
                         int64_t row_offset) {
  DeviceBatch device;
  device.tokens = static_cast<int64_t>(ids.size());
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(cached + row_offset));
  device.ids = UploadInts(backend, stream, ids, device.tokens);
  device.positions = UploadInts(backend, stream, positions, device.tokens);
  const int32_t length = static_cast<int32_t>(ids.size());
  device.segments.push_back({0, length, 0, static_cast<int32_t>(cached) + length});
  return device;
}

}  // namespace ftune
