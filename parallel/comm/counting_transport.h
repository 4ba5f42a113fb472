// One rank of a group whose others are not there: for a dry run, which wants to know what a rank calls and
// not what comes of it. Every other rank is taken to give what this one gives.
#pragma once

#include <memory>

#include "parallel/comm/transport.h"

namespace ftune {

// Calls return at once. Buffers of no memory, as the meta backend's tensors have them, stay so; those of the
// host have this rank's share in the place of all, and sums are this rank's value times the ranks. What a
// rank would receive from one other is left as it is.
std::unique_ptr<Transport> MakeCountingTransport(int rank, int size);

}  // namespace ftune
