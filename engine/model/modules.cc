#include "engine/model/modules.h"

#include "base/strings.h"
#include "engine/backend/meta/meta_backend.h"
#include "engine/model/model.h"

namespace ftune {
namespace {

class NoWorkspace final : public WorkspaceSizes {
 public:
  int64_t MatMul(const MatMulArgs&) const override { return 0; }
  int64_t AttentionForward(const AttentionShape&) const override { return 0; }
  int64_t AttentionBackward(const AttentionShape&) const override { return 0; }
  int64_t ColumnReduction(int64_t, int64_t) const override { return 0; }
  int64_t Adafactor(int64_t, int64_t) const override { return 0; }
  int64_t Muon(int64_t, int64_t) const override { return 0; }
};

}  // namespace

// The model itself is asked, run dry: there is no second list of names to keep true.
std::vector<ParameterShape> ModelParameters(const ModelConfig& config) {
  MetaBackend meta(std::make_unique<NoWorkspace>());
  const ParameterPolicy policy = {.trainable = [](const std::string&) { return false; },
                                  .dtype = [](const std::string&, bool) { return DType::kF32; },
                                  .adapter = nullptr};
  const Model model(meta, Stream(), config, policy, 1);
  std::vector<ParameterShape> all;
  for (const Parameter* p : model.parameters()) all.push_back({p->name, p->shape});
  return all;
}

std::vector<std::string> LinearModules(const ModelConfig& config) {
  const ModuleNames& names = config.architecture->names;
  std::vector<std::string> modules;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (const std::string_view name :
         {names.query, names.key, names.value, names.fused_qkv, names.attention_output, names.gate, names.up,
          names.fused_gate_up, names.down}) {
      if (!name.empty()) modules.push_back(StrCat(LayerPrefix(config, layer), name));
    }
  }
  return modules;
}

}  // namespace ftune
