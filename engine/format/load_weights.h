// Weights from a file into a model: how each parameter is stored, and its values.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "engine/format/weight_source.h"
#include "engine/model/model.h"

namespace ftune {

struct StorageOptions {
  std::function<bool(const std::string& name)> trainable;
  DType trainable_dtype = DType::kF32;
  // Of frozen parameters; none: as they are in the file, plain or quantised.
  std::optional<DType> frozen_dtype;
  // The type, one that is quantised as a whole, of the frozen weights of these modules (their full names).
  std::optional<DType> quantize;
  std::set<std::string> quantized_modules;
};

// Reads the file's dtypes, so `source` outlives the policy.
ParameterPolicy MakeParameterPolicy(const StorageOptions& options, const WeightSource& source,
                                    AdapterFactories adapter);

// One tensor, or this rank's slice of it, into one parameter, converted. Errors: another shape, no
// floating-point type, blocks of quantised values that the slice would cut.
absl::Status LoadParameter(Backend& backend, Stream stream, const SourceTensor& tensor,
                           const Parameter& parameter);
// The same of one that is yet to be fetched from its source, and is given back to it.
absl::Status FetchParameter(Backend& backend, Stream stream, const WeightSource& source,
                            const SourceTensor& tensor, const Parameter& parameter);
// The first two errors of these.
absl::Status CheckLoadable(const SourceTensor& tensor, const Parameter& parameter);

// Fills a parameter, which has memory now; nothing where it is not of those that are meant.
using ParameterFill = std::function<absl::Status(const Parameter& parameter)>;

// What fills the base parameters (all but an adapter's) of `model`, whose stores need not have memory yet. A
// tensor that is missing, of the wrong shape or unexpected is an error that names it and its file. All that
// is given here outlives the result.
absl::StatusOr<ParameterFill> PrepareWeights(Backend& backend, Stream stream, const Model& model,
                                             const WeightSource& source);

// Changes the values of the parameters that `fill` means.
absl::Status ChangeValues(Model& model, const ParameterFill& fill);

// Fills all base parameters.
absl::Status LoadWeights(Backend& backend, Stream stream, Model& model, const WeightSource& source);

}  // namespace ftune
