// Frozen weights that are quantised while they are loaded (QLoRA).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backend/backend.h"
#include "engine/format/weight_source.h"
#include "engine/model/model.h"

namespace ftune {

// "none" (nothing), "nf4", "fp4" or "int8": the names in recipes, on the command line and in adapters'
// folders. An error says what is expected.
absl::StatusOr<std::optional<DType>> ParseQuantization(std::string_view name);
std::string_view QuantizationName(const std::optional<DType>& dtype);

// `tensor`, of any floating-point type, into a parameter whose type is quantised as a whole, by way of f32.
// While it runs, the ledger's buffers hold the tensor in f32 and a few rows as they are in the file. An error
// names the tensor if it has a value that is not finite: one of them would spoil the scales of all.
absl::Status LoadQuantized(Backend& backend, Stream stream, const SourceTensor& tensor,
                           const Parameter& parameter);

struct QuantizedWeights {
  int64_t count = 0;
  int64_t source_bytes = 0;  // as they are in the file
  int64_t bytes = 0;         // as they are stored
  int64_t twice = 0;         // how many were quantised in the file already
};
// Which of the model's weights are quantised as a whole.
QuantizedWeights FindQuantized(const Model& model, const WeightSource& source);

}  // namespace ftune
