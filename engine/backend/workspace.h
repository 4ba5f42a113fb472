// Memory that work on a device needs beside its operands. The real backend and the meta backend that stands
// for it ask the same object, so that their ledgers agree.
#pragma once

#include <cstdint>

#include "engine/backend/ops.h"

namespace ftune {

class WorkspaceSizes {
 public:
  virtual ~WorkspaceSizes() = default;
  // Of scores over the vocabulary that are made at once: more of them keep a device busier.
  virtual int64_t Scores() const = 0;

  // Scratch memory of ops: bytes, 0 if none is needed.
  virtual int64_t MatMul(const MatMulArgs& args) const = 0;
  virtual int64_t AttentionForward(const AttentionShape& shape) const = 0;
  virtual int64_t AttentionBackward(const AttentionShape& shape) const = 0;
  // Column sums over rows (bias and norm weight gradients, sums of squares), `cols` wide.
  virtual int64_t ColumnReduction(int64_t rows, int64_t cols) const = 0;
  // An update of weights [rows, cols].
  virtual int64_t Adafactor(int64_t rows, int64_t cols) const = 0;
  virtual int64_t Muon(int64_t rows, int64_t cols) const = 0;
};

}  // namespace ftune
