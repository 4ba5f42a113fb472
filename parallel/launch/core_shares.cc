#include "parallel/launch/core_shares.h"

#include <sched.h>

#include <memory>

namespace ftune {

std::vector<int> AllowedCores() {
  // A mask that is too small for the machine is refused.
  for (int size = CPU_SETSIZE; size <= (1 << 20); size *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(CPU_ALLOC(size),
                                                                [](cpu_set_t* set) { CPU_FREE(set); });
    const size_t bytes = CPU_ALLOC_SIZE(size);
    CPU_ZERO_S(bytes, mask.get());
    if (sched_getaffinity(0, bytes, mask.get()) != 0) continue;
    std::vector<int> cores;
    for (int core = 0; core < size; ++core) {
      if (CPU_ISSET_S(core, bytes, mask.get())) cores.push_back(core);
    }
    return cores;
  }
  return {};
}

std::vector<std::vector<int>> ShareCores(const std::vector<int>& cores, int ranks) {
  const int count = static_cast<int>(cores.size());
  std::vector<std::vector<int>> shares(ranks);
  if (count == 0) return shares;
  int next = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    if (ranks >= count) {
      shares[rank] = {cores[rank % count]};
      continue;
    }
    const int size = count / ranks + (rank < count % ranks ? 1 : 0);
    shares[rank].assign(cores.begin() + next, cores.begin() + next + size);
    next += size;
  }
  return shares;
}

}  // namespace ftune
