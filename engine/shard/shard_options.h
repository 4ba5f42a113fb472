// What of a model's training state the ranks of the data axis share out among them (Rajbhandari et al.,
// "ZeRO: memory optimizations toward training trillion parameter models", 2020).
#pragma once

#include <cstdint>

#include "parallel/comm/compression/compressor.h"

namespace ftune {

struct ShardOptions {
  // 0: nothing, all is on every rank; 1: optimizer states and masters; 2: gradients too; 3: values too.
  int zero = 0;
  // Neighbours on the data axis that share out a copy among them; beyond them are other copies. 0: all.
  int shard_size = 0;
  // Gradients are reduced in pieces of about so many bytes, as backward makes them. Where they are shared
  // out, a block is a piece.
  int64_t bucket_bytes = int64_t{25} << 20;
  // ZeRO-3: a block's values are sent away after each use, to be gathered again for the next; otherwise they
  // stay from their first use in a step to the next update.
  bool reshard_after_use = true;
  // ZeRO-3: parameters of fewer elements stay whole on every rank.
  int64_t persistence_threshold = 0;
  // Of gradients on the slow part of the data axis (CompressedSums). Then bucket_bytes has no say.
  CompressionOptions compression = {.kind = Compression::kNone};
};

}  // namespace ftune
