#include "data/loader/stream_window.h"

#include <vector>

#include "data/pack/packing.h"

namespace ftune {

bool IsWindow(int64_t samples, int64_t tokens, const WindowOptions& options) {
  if (samples < options.window) return false;
  // Packs hold at most `capacity` tokens, so there are no fewer than this.
  return options.packing ? tokens >= options.global_batch_size * options.capacity
                         : samples >= options.global_batch_size;
}

int64_t WindowRows(std::span<const int32_t> lengths, std::span<const int64_t> row_ends,
                   const WindowOptions& options) {
  WindowPacker packer(options.packing ? options.capacity : 1);
  std::vector<uint32_t> pack_of;
  const auto packs_of = [&](int64_t rows) -> int64_t {
    const int64_t samples = rows == 0 ? 0 : row_ends[static_cast<size_t>(rows) - 1];
    return options.packing ? packer.Pack(lengths.first(static_cast<size_t>(samples)), pack_of) : samples;
  };
  const auto all = static_cast<int64_t>(row_ends.size());
  const int64_t packs = packs_of(all);
  const int64_t wanted = packs / options.global_batch_size * options.global_batch_size;
  if (packs == wanted) return all;
  // Bisects for rows `low` that need no more than `wanted` packs while one row more needs more.
  int64_t low = 0, high = all;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (packs_of(middle) <= wanted ? low : high) = middle;
  }
  // One row may make very many packs; without it a batch could be missing.
  return packs_of(low) > wanted - options.global_batch_size ? low : all;
}

}  // namespace ftune
