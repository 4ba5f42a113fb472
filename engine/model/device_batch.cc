#include "engine/model/device_batch.h"

#include <algorithm>
#include <cmath>
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

// The rows of the batch's positions in the model's tables.
std::vector<int32_t> RowsOf(const Batch& batch, const PositionPlan& plan) {
  std::vector<int32_t> positions = batch.positions;
  for (const Segment& s : batch.segments) {
    const int32_t offset = static_cast<int32_t>(plan.OffsetFor(s.length));
    for (int32_t t = s.begin; t < s.begin + s.length; ++t) positions[t] += offset;
  }
  return positions;
}

// What a batch brings along where each text has positions of its own.
void AddTextPositions(Backend& backend, Stream stream, const PositionPlan& plan,
                      const std::vector<TextPositions>& texts, DeviceBatch& device) {
  if (!plan.per_text) return;
  std::vector<int32_t> rows(device.tokens);
  std::iota(rows.begin(), rows.end(), 0);
  device.text_rows = UploadInts(backend, stream, rows, device.tokens);
  device.text_table = MakeTextTable(backend, stream, plan, texts, device.tokens);
}

// The batch's segments and what lies between and after them, in order.
std::vector<TextPositions> TextsOf(const Batch& batch) {
  std::vector<TextPositions> texts;
  int64_t next = 0;
  const auto fill = [&](int64_t end) {
    for (; next < end; ++next) texts.push_back({0, 1, 1});
  };
  for (const Segment& s : batch.segments) {
    fill(s.begin);
    texts.push_back({0, s.length, s.length});
    next = s.begin + s.length;
  }
  fill(batch.tokens());
  return texts;
}

}  // namespace

DeviceBatch UploadBatch(Backend& backend, Stream stream, const Batch& batch, const PositionPlan& positions) {
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
  device.positions = UploadInts(backend, stream, RowsOf(batch, positions), device.tokens);
  AddTextPositions(backend, stream, positions, TextsOf(batch), device);
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

Tensor UploadNoise(Backend& backend, Stream stream, const Batch& batch, float alpha, int64_t hidden_size) {
  const Tensor noise = backend.Allocate(1, batch.tokens(), Category::kBuffers);
  std::vector<float> amplitudes(batch.tokens(), 0.0f);
  for (const Segment& s : batch.segments) {
    const float size = static_cast<float>(s.length) * static_cast<float>(hidden_size);
    std::fill_n(amplitudes.begin() + s.begin, s.length, alpha / std::sqrt(size));
  }
  backend.Upload(stream, std::as_bytes(std::span(amplitudes)), noise);
  return noise;
}

DeviceBatch UploadTokens(Backend& backend, Stream stream, const std::vector<int32_t>& ids, int64_t cached,
                         int64_t length, const PositionPlan& plan) {
  DeviceBatch device;
  device.tokens = static_cast<int64_t>(ids.size());
  std::vector<int32_t> positions(ids.size());
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(cached + plan.OffsetFor(length)));
  device.ids = UploadInts(backend, stream, ids, device.tokens);
  device.positions = UploadInts(backend, stream, positions, device.tokens);
  AddTextPositions(backend, stream, plan, {{cached, device.tokens, length}}, device);
  const int32_t fresh = static_cast<int32_t>(ids.size());
  device.segments.push_back({0, fresh, 0, static_cast<int32_t>(cached) + fresh});
  return device;
}

}  // namespace ftune
