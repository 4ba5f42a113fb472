// Rows looked up, gathered and scattered by index.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

void EmbeddingForward(ThreadPool& pool, const Tensor& ids, const Tensor& table, int64_t first_id,
                      const Tensor& out);
void EmbeddingBackward(ThreadPool& pool, const Tensor& ids, const Tensor& dy, int64_t first_id,
                       const Tensor& dtable);
void GatherRows(ThreadPool& pool, const Tensor& from, const Tensor& rows, const Tensor& to);
void ScatterRows(ThreadPool& pool, const Tensor& from, const Tensor& rows, const Tensor& to);

}  // namespace ftune::cpu
