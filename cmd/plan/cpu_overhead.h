// What a rank's process has of a host's memory beside the engine's ledger.
#pragma once

#include <cstdint>

namespace ftune {

// Bytes: the program's own, those of its libraries and threads, the tokenizer, the batches and the pieces in
// which files are written. Measured: 19 to 30 MB, whatever the model, the mesh and the number of threads
// (docs/planning.md). Nothing is lost to fragmentation: what the CPU's allocator keeps is never more than
// what was asked of it at the highest moment.
inline constexpr int64_t kCpuRuntime = 26'000'000;

}  // namespace ftune
