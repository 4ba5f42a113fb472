#include "engine/model/modules.h"

#include "base/strings.h"
#include "engine/backend/meta/meta_backend.h"
#include "engine/model/model.h"

namespace ftune {
namespace {

class NoWorkspace final : public WorkspaceSizes {
 public:
  int64_t Scores() const override { return 0; }
  int64_t MatMul(const MatMulArgs&) const override { return 0; }
  int64_t AttentionForward(const AttentionShape&) const override { return 0; }
  int64_t AttentionBackward(const AttentionShape&) const override { return 0; }
  int64_t ColumnReduction(int64_t, int64_t) const override { return 0; }
  int64_t Adafactor(int64_t, int64_t) const override { return 0; }
  int64_t Muon(int64_t, int64_t) const override { return 0; }
};

}  // namespace

// The model itself is asked, run dry: there is no second list of names to keep true.
std::vector<ParameterShape> AdaptedModelParameters(const ModelConfig& config, AdapterFactories adapter,
                                                   const AxisPosition& position) {
  MetaBackend meta(std::make_unique<NoWorkspace>());
  const ParameterPolicy policy = {.trainable = [](const std::string&) { return false; },
                                  .dtype = [](const std::string&, bool) { return DType::kF32; },
                                  .adapter = std::move(adapter)};
  const Model model(meta, Stream(), config, policy, 1, TensorAxis(position, false));
  std::vector<ParameterShape> all;
  for (const Parameter* p : model.parameters()) all.push_back({p->name, p->shape, p->dims});
  return all;
}

std::vector<ParameterShape> ModelParameters(const ModelConfig& config) {
  return AdaptedModelParameters(config, {});
}

std::vector<AdaptableModule> AdaptableModules(const ModelConfig& config) {
  using Kind = AdaptableModule::Kind;
  std::vector<AdaptableModule> modules;
  AdaptedModelParameters(config, {.linear =
                                      [&](const LinearSite& site, ParameterStore&) {
                                        for (const LinearPart& part : site.parts) {
                                          modules.push_back({.name = part.module,
                                                             .kind = site.head ? Kind::kHead : Kind::kLinear,
                                                             .transposed = site.transposed});
                                        }
                                        return nullptr;
                                      },
                                  .embedding =
                                      [&](const EmbeddingSite& site, ParameterStore&) {
                                        modules.push_back({.name = site.module, .kind = Kind::kEmbedding});
                                        return nullptr;
                                      }});
  return modules;
}

std::vector<std::string> LinearModules(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const AdaptableModule& module : AdaptableModules(config)) {
    if (module.kind == AdaptableModule::Kind::kLinear) names.push_back(module.name);
  }
  return names;
}

}  // namespace ftune
