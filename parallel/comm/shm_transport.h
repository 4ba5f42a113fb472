// Ranks that are processes of one host: they read each other's buffers in shared memory. Buffers that are
// not from Allocate (of any group of the run) are copied once more, through a small area of each rank.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "parallel/comm/shm_options.h"
#include "parallel/comm/transport.h"

namespace ftune {

// Called by all ranks; returns when all are there. An error in one group ends them all, in all processes; so
// does the death of a process, within a second, or its silence. Allocate is not collective. No name in any
// file system is used, and nothing is left of a process that dies.
absl::StatusOr<std::unique_ptr<Transport>> JoinSharedMemory(const ShmOptions& options);

}  // namespace ftune
