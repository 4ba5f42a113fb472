// What one op asks of a device, for those who reckon how long that takes.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace ftune {

// Ops that one rate describes. All but products and attention are limited by what they read and write.
enum class OpClass : uint8_t {
  kProduct,
  kAttention,
  kAttentionBackward,
  kNorm,
  kRope,
  kGate,  // activations, with a gate or without
  kLoss,
  kEmbedding,
  kUpdate,  // of weights, by an optimizer
  kCopy,    // sums, factors, conversions, zeros
};
inline constexpr int kOpClasses = 10;
inline constexpr std::array<std::string_view, kOpClasses> kOpClassNames = {
    "product", "attention", "attention_backward", "norm",   "rope",
    "gate",    "loss",      "embedding",          "update", "copy"};
inline std::string_view Name(OpClass op) { return kOpClassNames[static_cast<size_t>(op)]; }

struct OpWork {
  OpClass op = OpClass::kCopy;
  DType dtype = DType::kF32;  // of a product's second operand
  double flops = 0.0;         // of products and attention; a multiply-add counts two
  double bytes = 0.0;         // of all operands: what is read and what is written
  int64_t smallest = 0;       // of a product's three sizes
  bool recomputed = false;    // inside a RecomputeScope
};

// Hears of each op of a backend, in the thread that asks for it, before the op is done.
class OpListener {
 public:
  virtual ~OpListener() = default;
  virtual void OnOp(const OpWork& work) = 0;
};

// Hears of what is read from disk and written beside the ops of a backend that does not compute, and knows
// when that would be done.
class DiskListener {
 public:
  virtual ~DiskListener() = default;
  virtual uint64_t OnDiskBegin(int64_t bytes) = 0;  // → a ticket, above 0
  virtual bool IsDiskDone(uint64_t ticket) = 0;
  virtual void OnDiskWait(uint64_t ticket) = 0;
};

}  // namespace ftune
