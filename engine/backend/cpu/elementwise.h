// Zeroing, conversion, sums, quotients, scaling and capping of whole tensors.
#pragma once

#include "engine/backend/cpu/parallel.h"
#include "engine/tensor/tensor.h"

namespace ftune::cpu {

void Zero(ThreadPool& pool, const Tensor& x);
void Convert(ThreadPool& pool, const Tensor& from, const Tensor& to);
void Add(ThreadPool& pool, const Tensor& x, const Tensor& y);
void Scale(ThreadPool& pool, const Tensor& x, float factor);
void SoftCap(ThreadPool& pool, float cap, const Tensor& x);
void Divide(ThreadPool& pool, const Tensor& x, const Tensor& y, const Tensor& out);
void ColumnScale(ThreadPool& pool, const Tensor& factor, const Tensor& x, const Tensor& y);
void AddBias(ThreadPool& pool, const Tensor& bias, const Tensor& y);

}  // namespace ftune::cpu
