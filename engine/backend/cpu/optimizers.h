// Optimizer updates of flat shards; what each computes stands in engine/backend/optimizer_ops.h. Results do
// not depend on the number of threads.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/backend/optimizer_ops.h"

namespace ftune::cpu {

void AdamW(ThreadPool& pool, const AdamWArgs& args);
void AdamW8bit(ThreadPool& pool, const AdamW8bitArgs& args);
void Sgd(ThreadPool& pool, const SgdArgs& args);
void Lion(ThreadPool& pool, const LionArgs& args);
// `workspace` has AdafactorWorkspaceBytes, MuonWorkspaceBytes.
void Adafactor(ThreadPool& pool, const AdafactorArgs& args, const Tensor& workspace);
int64_t AdafactorWorkspaceBytes(int64_t rows, int64_t cols);
void Muon(ThreadPool& pool, const MuonArgs& args, const Tensor& workspace);
// Of a pool of so many threads.
int64_t MuonWorkspaceBytes(int64_t rows, int64_t cols, int threads);

}  // namespace ftune::cpu
