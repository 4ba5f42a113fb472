// Where a window of streamed rows ends, so that it makes whole global batches.
#pragma once

#include <cstdint>
#include <span>

namespace ftune {

struct WindowOptions {
  int64_t window = 8192;           // samples at least
  int64_t capacity = 2048;         // tokens of a pack
  bool packing = true;             // otherwise each sample is a pack
  int64_t global_batch_size = 16;  // packs
};

// Whether rows with so many samples of so many tokens are a window: they make at least one global batch.
bool IsWindow(int64_t samples, int64_t tokens, const WindowOptions& options);

// How many of these rows make whole global batches, with as few as possible left over: row r has samples
// [row_ends[r - 1], row_ends[r]) of `lengths`. All, where a row makes so many packs that a batch would be
// missing without it. The rows left over begin the next window, so that where one begins says all about it.
int64_t WindowRows(std::span<const int32_t> lengths, std::span<const int64_t> row_ends,
                   const WindowOptions& options);

}  // namespace ftune
