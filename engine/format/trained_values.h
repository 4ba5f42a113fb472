// What a run has trained, by the names of parameters, in the place of what the model and its adapter have:
// how a checkpoint's values get into a model.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/format/load_weights.h"
#include "engine/format/weight_source.h"
#include "engine/model/adapter.h"
#include "engine/model/model.h"

namespace ftune {

// Whether it has values of an adapter.
bool HasAdapterValues(const WeightSource& trained);

// Each of its tensors must have a parameter of its shape in a model with this adapter, and where it has
// values of an adapter, each of the adapter's parameters a tensor. An error names the tensor.
absl::Status CheckTrained(const ModelConfig& config, const AdapterFactories& adapter,
                          const WeightSource& trained);

// The tensors of `base`, with those of `trained` in the place of those of the same names. An adapter's are
// left out.
std::unique_ptr<WeightSource> Overlay(std::unique_ptr<WeightSource> base,
                                      std::shared_ptr<const WeightSource> trained);

// What fills the adapter's parameters. CheckTrained has said that they are there.
ParameterFill PrepareTrainedAdapter(Backend& backend, Stream stream,
                                    std::shared_ptr<const WeightSource> trained);

}  // namespace ftune
