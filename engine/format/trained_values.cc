#include "engine/format/trained_values.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "engine/adapter/lora_names.h"
#include "engine/model/modules.h"

namespace ftune {
namespace {

constexpr char kHint[] =
    "the model, the adapter section and model.added_tokens must be those that the checkpoint's run had";

class OverlaidWeights final : public WeightSource {
 public:
  OverlaidWeights(std::unique_ptr<WeightSource> base, std::shared_ptr<const WeightSource> trained)
      : base_(std::move(base)), trained_(std::move(trained)), tensors_(base_->tensors()) {
    for (SourceTensor& tensor : tensors_) {
      if (const SourceTensor* over = trained_->Find(tensor.name)) tensor = *over;
    }
  }
  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  absl::StatusOr<SourceTensor> Fetch(const SourceTensor& tensor) const override {
    return OwnerOf(tensor).Fetch(tensor);
  }
  void Release(const SourceTensor& tensor) const override { OwnerOf(tensor).Release(tensor); }

 private:
  const WeightSource& OwnerOf(const SourceTensor& tensor) const {
    return trained_->Find(tensor.name) != nullptr ? *trained_ : *base_;
  }

  std::unique_ptr<WeightSource> base_;
  std::shared_ptr<const WeightSource> trained_;
  std::vector<SourceTensor> tensors_;
};

}  // namespace

bool HasAdapterValues(const WeightSource& trained) {
  return std::any_of(trained.tensors().begin(), trained.tensors().end(),
                     [](const SourceTensor& tensor) { return IsAdapterParameter(tensor.name); });
}

absl::Status CheckTrained(const ModelConfig& config, const AdapterFactories& adapter,
                          const WeightSource& trained) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (ParameterShape& p : AdaptedModelParameters(config, adapter)) shapes[p.name] = std::move(p.shape);
  for (const SourceTensor& tensor : trained.tensors()) {
    const auto found = shapes.find(tensor.name);
    if (found == shapes.end()) {
      return DataError({.file = tensor.file,
                        .key = tensor.name,
                        .message = "the checkpoint has this tensor, and the model has no such parameter",
                        .hint = kHint});
    }
    if (found->second == tensor.shape) continue;
    return DataError({.file = tensor.file,
                      .key = tensor.name,
                      .found = StrCat("shape [", StrJoin(tensor.shape, ", "), "]"),
                      .expected = StrCat("[", StrJoin(found->second, ", "), "], as the model has it"),
                      .hint = kHint});
  }
  if (!HasAdapterValues(trained)) return absl::OkStatus();
  for (const auto& [name, shape] : shapes) {
    if (!IsAdapterParameter(name) || trained.Find(name) != nullptr) continue;
    return DataError({.file = trained.tensors().front().file,
                      .key = name,
                      .message = "the checkpoint lacks this parameter of the adapter",
                      .hint = kHint});
  }
  return absl::OkStatus();
}

std::unique_ptr<WeightSource> Overlay(std::unique_ptr<WeightSource> base,
                                      std::shared_ptr<const WeightSource> trained) {
  return std::make_unique<OverlaidWeights>(std::move(base), std::move(trained));
}

ParameterFill PrepareTrainedAdapter(Backend& backend, Stream stream,
                                    std::shared_ptr<const WeightSource> trained) {
  return [&backend, stream, trained = std::move(trained)](const Parameter& parameter) -> absl::Status {
    if (!IsAdapterParameter(parameter.name)) return absl::OkStatus();
    return FetchParameter(backend, stream, *trained, *trained->Find(parameter.name), parameter);
  };
}

}  // namespace ftune
