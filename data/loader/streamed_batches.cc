#include "data/loader/streamed_batches.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/random.h"
#include "base/strings.h"
#include "data/loader/assemble.h"
#include "data/pack/packing.h"

namespace ftune {
namespace {

constexpr uint64_t kStreamPurpose = 0x73747265616d0000;  // "stream"

// The draws of the window that begins at a row of a pass.
RandomSequence WindowDraws(uint64_t seed, const DataPosition& position) {
  const auto block = Philox(seed, static_cast<uint64_t>(position.row),
                            kStreamPurpose ^ static_cast<uint64_t>(position.epoch) << 48);
  return {static_cast<uint64_t>(block[0]) << 32 | block[1], kStreamPurpose};
}

}  // namespace

StreamedBatches::StreamedBatches(RowInput input, const StreamOptions& options)
    : input_(std::move(input)), options_(options) {}

void StreamedBatches::Interrupt() {
  interrupted_ = true;
  const std::lock_guard lock(stream_mutex_);
  if (stream_) stream_->Interrupt();
}

absl::Status StreamedBatches::Open() {
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<RowStream> stream, input_.open());
  {
    const std::lock_guard lock(stream_mutex_);
    stream_ = std::move(stream);
    if (interrupted()) stream_->Interrupt();
  }
  input_ended_ = false;
  any_samples_ = false;
  rows_.clear();
  samples_ = tokens_ = 0;
  window_rows_ = 0;
  return absl::OkStatus();
}

absl::Status StreamedBatches::ReadRows() {
  while (!input_ended_ && !IsWindow(samples_, tokens_, options_.window)) {
    FTUNE_ASSIGN_OR_RETURN(std::optional<StreamedRow> row, stream_->Next());
    if (interrupted()) return absl::OkStatus();
    if (!row) {
      input_ended_ = true;
      break;
    }
    for (const std::vector<StoredToken>& sample : *row) tokens_ += static_cast<int64_t>(sample.size());
    samples_ += static_cast<int64_t>(row->size());
    any_samples_ = any_samples_ || !row->empty();
    rows_.push_back(*std::move(row));
  }
  return absl::OkStatus();
}

absl::Status StreamedBatches::MakeWindow() {
  FTUNE_RETURN_IF_ERROR(ReadRows());
  if (interrupted()) return absl::OkStatus();
  std::vector<int32_t> lengths;
  std::vector<int64_t> row_ends;
  window_samples_.clear();
  for (const StreamedRow& row : rows_) {
    for (const std::vector<StoredToken>& sample : row) {
      lengths.push_back(static_cast<int32_t>(sample.size()));
      window_samples_.push_back(&sample);
    }
    row_ends.push_back(static_cast<int64_t>(lengths.size()));
  }
  const WindowOptions& window = options_.window;
  window_rows_ = input_ended_ ? static_cast<int64_t>(rows_.size()) : WindowRows(lengths, row_ends, window);
  const size_t samples = window_rows_ == 0 ? 0 : static_cast<size_t>(row_ends[window_rows_ - 1]);
  lengths.resize(samples);
  window_samples_.resize(samples);

  RandomSequence random = WindowDraws(options_.seed, position_);
  std::vector<uint32_t> order(samples);
  std::iota(order.begin(), order.end(), 0u);
  Shuffle(std::span(order), random);
  // All of the samples are one window of the packing.
  packs_ = window.packing ? PlanPacks(lengths, order, window.capacity, &random,
                                      static_cast<int64_t>(std::max<size_t>(1, samples)))
                          : OneSamplePacks(order);
  return absl::OkStatus();
}

int64_t StreamedBatches::Batches() const {
  return (packs_.size() + options_.window.global_batch_size - 1) / options_.window.global_batch_size;
}

absl::StatusOr<std::optional<StepBatches>> StreamedBatches::Next() {
  for (;;) {
    if (interrupted()) return std::nullopt;
    if (!stream_) {
      if (position_.epoch > 0 && !input_.rereadable) return std::nullopt;
      FTUNE_RETURN_IF_ERROR(Open());
    }
    if (window_rows_ == 0) {
      FTUNE_RETURN_IF_ERROR(MakeWindow());
      if (interrupted()) return std::nullopt;
    }
    if (position_.batch < Batches()) {
      StepBatches step = Assemble();
      ++position_.step;
      ++position_.batch;
      if (position_.batch == Batches()) Advance();
      step.epoch = static_cast<double>(position_.epoch);
      step.next = position_;
      return step;
    }
    // A pass whose last rows, or all of them, made no sample.
    if (input_ended_ && !any_samples_) {
      return DataError(
          {.key = "data.train",
           .message =
               StrCat("no row is left to train on: all ", position_.row + window_rows_, " were dropped"),
           .hint = "see data.sequence_len, data.excess_length_strategy and data.train_on_inputs"});
    }
    Advance();
  }
}

void StreamedBatches::Advance() {
  const bool pass_ended = input_ended_ && window_rows_ == static_cast<int64_t>(rows_.size());
  position_.batch = 0;
  if (pass_ended) {
    position_.row = 0;
    ++position_.epoch;
    const std::lock_guard lock(stream_mutex_);
    stream_ = nullptr;
    return;
  }
  for (int64_t i = 0; i < window_rows_; ++i) {
    for (const std::vector<StoredToken>& sample : rows_.front()) {
      tokens_ -= static_cast<int64_t>(sample.size());
    }
    samples_ -= static_cast<int64_t>(rows_.front().size());
    rows_.pop_front();
  }
  position_.row += window_rows_;
  window_rows_ = 0;
}

StepBatches StreamedBatches::Assemble() const {
  const WindowOptions& window = options_.window;
  const RankSlice& slice = options_.slice;
  const int64_t begin = position_.batch * window.global_batch_size;
  const int64_t end = std::min(begin + window.global_batch_size, packs_.size());
  StepBatches step;
  int64_t longest = 0;
  for (int64_t p = begin; p < end; ++p) {
    int64_t length = 0;
    for (const uint32_t s : packs_[p]) {
      const std::vector<StoredToken>& sample = *window_samples_[s];
      length += static_cast<int64_t>(sample.size());
      for (size_t i = 1; i < sample.size(); ++i) step.trained_tokens += sample[i].trained();
    }
    longest = std::max(longest, length);
  }
  const int64_t capacity = window.packing ? window.capacity : CapacityBucket(longest, window.capacity);
  for (int64_t m = 0; m < slice.MicroBatches(end - begin); ++m) {
    const int64_t first = slice.FirstPack(m);
    Batch batch = BlankBatch(slice.micro_batch_size, capacity, first * capacity);
    for (int64_t p = 0; p < batch.packs; ++p) {
      std::vector<std::span<const StoredToken>> samples;
      if (begin + first + p < end) {
        for (const uint32_t s : packs_[begin + first + p]) samples.push_back(*window_samples_[s]);
      }
      FillPack(batch, p, samples);
    }
    step.microbatches.push_back(std::move(batch));
  }
  return step;
}

absl::Status StreamedBatches::Seek(const DataPosition& position) {
  if (position.epoch > 0 && !input_.rereadable) {
    return DataError({.key = "position.epoch",
                      .message = "the saved position is behind the end of data that is read once",
                      .found = StrCat(position.epoch),
                      .expected = "0"});
  }
  FTUNE_RETURN_IF_ERROR(Open());
  FTUNE_ASSIGN_OR_RETURN(const int64_t skipped, stream_->Skip(position.row));
  if (interrupted()) return absl::OkStatus();
  if (skipped != position.row) {
    return DataError({.key = "position.row",
                      .message = "the data has become shorter since the position was saved",
                      .found = StrCat(skipped, " rows"),
                      .expected = StrCat("at least ", position.row)});
  }
  position_ = position;
  position_.batch = 0;
  any_samples_ = position.row > 0;  // there were some, or the position would not be there
  if (position.batch == 0) return absl::OkStatus();
  FTUNE_RETURN_IF_ERROR(MakeWindow());
  if (interrupted()) return absl::OkStatus();
  if (position.batch >= Batches()) {
    return DataError({.key = "position.batch",
                      .message = "the saved position is not one of this data",
                      .found = StrCat(position.batch),
                      .expected = StrCat("less than ", Batches(), ", the batches of its window"),
                      .hint = "go on with the same data, data options, seed and batch size"});
  }
  position_.batch = position.batch;
  return absl::OkStatus();
}

}  // namespace ftune
