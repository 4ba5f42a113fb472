// Optimizer updates of flat shards, as torch.optim.AdamW and torch.optim.SGD compute them.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/ops.h"

namespace ftune::cpu {

void AdamW(ThreadPool& pool, const AdamWArgs& args);
void Sgd(ThreadPool& pool, const SgdArgs& args);

}  // namespace ftune::cpu
