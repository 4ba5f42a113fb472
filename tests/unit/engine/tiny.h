// Small random models and batches for tests of the engine.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/adapter/lora.h"
#include "engine/adapter/lora_names.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/backend/cpu/cpu_workspace.h"
#include "engine/backend/meta/meta_backend.h"
#include "engine/format/load_weights.h"
#include "engine/model/modules.h"
#include "engine/model/slices.h"
#include "engine/optim/optimizer.h"
#include "engine/pipeline/pipeline.h"
#include "engine/pipeline/stage_plan.h"
#include "engine/shard/model_shards.h"
#include "engine/train/step.h"

namespace ftune::testing {

inline constexpr int kThreads = 1;

inline std::unique_ptr<CpuBackend> MakeCpu(int threads = kThreads) {
  return std::make_unique<CpuBackend>(CpuOptions{.threads = threads});
}
inline std::unique_ptr<MetaBackend> MakeMeta(int threads = kThreads) {
  return std::make_unique<MetaBackend>(std::make_unique<CpuWorkspaceSizes>(threads));
}

inline int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t n : shape) count *= n;
  return count;
}

inline ModelConfig TinyConfig() {
  ModelConfig config;
  config.model_type = "llama";
  config.vocab_size = 97;
  config.hidden_size = 48;
  config.intermediate_size = 80;
  config.num_layers = 3;
  config.num_heads = 6;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.max_position = 128;
  config.layer_window = {0, 0, 0};
  return config;
}

// One of each architecture, with settings that its families have.
inline std::vector<ModelConfig> ArchitectureConfigs() {
  std::vector<ModelConfig> configs;
  const auto add = [&](const Architecture& architecture) -> ModelConfig& {
    configs.push_back(TinyConfig());
    configs.back().architecture = &architecture;
    return configs.back();
  };
  add(kLlama).layer_rope = {LayerRope::kGlobal, LayerRope::kNone, LayerRope::kGlobal};
  add(kQwen3).head_dim = 12;
  add(kPhi3).rotary_dim = 6;
  for (const Architecture* gemma : {&kGemma, &kGemma2, &kGemma3}) {
    ModelConfig& config = add(*gemma);
    config.activation = Activation::kGeluTanh;
    config.tied_head = true;
    if (gemma == &kGemma) continue;
    config.layer_window = {6, 0, 6};
    config.attention_scale = 0.3f;
    config.logit_softcap = 3.0f;
    if (gemma == &kGemma2) config.attention_softcap = 2.0f;
    if (gemma == &kGemma3) config.layer_rope = {LayerRope::kLocal, LayerRope::kGlobal, LayerRope::kLocal};
  }
  ModelConfig& gpt2 = add(kGpt2);
  gpt2.qkv_bias = gpt2.output_bias = gpt2.mlp_bias = true;
  gpt2.num_kv_heads = gpt2.num_heads;
  gpt2.activation = Activation::kGeluTanh;
  gpt2.tied_head = true;
  return configs;
}

// A model that four ranks can share, with fewer key heads than those.
inline ModelConfig Divisible(ModelConfig config) {
  config.num_heads = 8;
  if (config.architecture == &kGpt2) config.num_kv_heads = 8;
  return config;
}

inline std::string Describe(const ModelConfig& config) {
  const std::pair<const Architecture*, const char*> names[] = {
      {&kLlama, "llama"},   {&kQwen3, "qwen3"},   {&kPhi3, "phi3"}, {&kGemma, "gemma"},
      {&kGemma2, "gemma2"}, {&kGemma3, "gemma3"}, {&kGpt2, "gpt2"}};
  for (const auto& [architecture, name] : names) {
    if (architecture == config.architecture) return name;
  }
  return "unknown";
}

// Weights drawn by name, so that they do not depend on the model they are loaded into.
class RandomWeights final : public WeightSource {
 public:
  explicit RandomWeights(const ModelConfig& config, uint64_t seed = 1) {
    std::vector<ParameterShape> shapes = ModelParameters(config);
    std::sort(shapes.begin(), shapes.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (size_t i = 0; i < shapes.size(); ++i) {
      int64_t count = 1;
      for (const int64_t d : shapes[i].shape) count *= d;
      RandomSequence random(seed, std::hash<std::string>()(shapes[i].name));
      auto& values = values_.emplace_back(count);
      const bool norm = shapes[i].name.find("norm") != std::string::npos;
      for (float& v : values) v = (norm ? 1.0f : 0.0f) + (random.Uniform() - 0.5f) * 0.4f;
      tensors_.push_back({.name = shapes[i].name,
                          .dtype = DType::kF32,
                          .shape = shapes[i].shape,
                          .bytes = std::as_bytes(std::span(values)),
                          .file = "random"});
    }
  }
  const std::vector<SourceTensor>& tensors() const override { return tensors_; }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<SourceTensor> tensors_;
};

struct TinyOptions {
  ModelConfig config = TinyConfig();
  bool lora = false;
  LoraOptions lora_options = {.rank = 4, .alpha = 8.0};
  DType trainable_dtype = DType::kF32;
  std::optional<DType> quantize;                      // of the decoder's linears
  std::function<bool(const std::string&)> trainable;  // default: all, or none with LoRA
  OptimizerOptions optimizer;
  std::optional<OffloadOptions> offload;  // none: all in memory
  TrainStep::Options step;
  ShardOptions sharding;
  ScheduleSource schedule;                           // with ranks of the pipeline
  std::optional<std::vector<int64_t>> stage_layers;  // none: balanced
};

// One of each kind of adapter.
inline std::vector<TinyOptions> AdapterOptions() {
  using Names = std::vector<std::string>;
  std::vector<TinyOptions> all;
  const auto add = [&](const LoraOptions& lora) -> TinyOptions& {
    TinyOptions& options = all.emplace_back();
    options.lora = true;
    options.lora_options = lora;
    options.lora_options.rank = 4;
    options.lora_options.alpha = 8.0;
    return options;
  };
  const Names ends = {"k_proj", "up_proj", "embed_tokens", "lm_head"};
  add({.rslora = true});
  add({.rank_pattern = {{"q_proj", 3}, {"layers.1.*", 5}}, .alpha_pattern = {{"down_proj", 2.0}}});
  add({.target_modules = ends});
  add({.target_modules = ends}).config.tied_head = true;
  add({.target_modules = Names{"q_proj"}, .modules_to_save = {"embed_tokens", "lm_head", "norm"}});
  add({.target_modules = Names{"q_proj"}, .modules_to_save = {"embed_tokens"}}).config.tied_head = true;
  add({.dora = true});
  TinyOptions& biased = add({.target_modules = Names{"q_proj", "v_proj", "o_proj"}, .dora = true});
  biased.config.qkv_bias = biased.config.output_bias = true;
  add({.target_modules = ends, .dora = true});
  for (const ModelConfig& config : ArchitectureConfigs()) {
    if (config.architecture != &kGpt2 && config.architecture != &kGemma2) continue;
    add({.dora = true}).config = config;
    add({.target_modules = std::string(".*(embed_tokens|wte|down_proj|mlp.c_proj|lm_head)"), .dora = true})
        .config = config;
  }
  return all;
}

// A model with its weights, optimizer and step, on a given backend; with a mesh, one rank's.
struct TinyTrainer {
  TinyTrainer(Backend& backend, const TinyOptions& options, const TensorAxis& axis = {}, Mesh* mesh = nullptr)
      : backend(backend), weights(options.config) {
    AdapterFactories adapter;
    LoraTargets targets;
    if (options.lora) {
      auto resolved = LoraTargets::Resolve(options.lora_options, options.config);
      REQUIRE_MESSAGE(resolved.ok(), std::string(resolved.status().message()));
      targets = *std::move(resolved);
      adapter = MakeLoraFactories(options.lora_options, targets);
    }
    StorageOptions storage;
    storage.trainable = options.trainable;
    if (!storage.trainable) {
      storage.trainable = [lora = options.lora, targets](const std::string& name) {
        return !lora || targets.Saves(name);
      };
    }
    storage.trainable_dtype = options.trainable_dtype;
    storage.quantize = options.quantize;
    const std::vector<std::string> linears = LinearModules(options.config);
    storage.quantized_modules = {linears.begin(), linears.end()};
    const bool staged = mesh != nullptr && mesh->shape().pipeline > 1;
    ModelPart part;
    if (staged) {
      const auto shape = options.schedule.Shape(mesh->shape().pipeline);
      REQUIRE_MESSAGE(shape.ok(), std::string(shape.status().message()));
      const auto blocks = PlanStages(options.config, 24, shape->stages(), options.stage_layers);
      REQUIRE_MESSAGE(blocks.ok(), std::string(blocks.status().message()));
      part = PartOf(*shape, mesh->Coordinate(MeshAxis::kPipeline), *blocks);
    }
    model = std::make_unique<Model>(backend, Stream(), options.config,
                                    MakeParameterPolicy(storage, weights, adapter), 128, axis,
                                    mesh != nullptr ? ValueMemory::kPlaced : ValueMemory::kOwn, part);
    if (mesh != nullptr) {
      auto made = ModelShards::Create(backend, Stream(), *model, *mesh, options.sharding, options.optimizer);
      REQUIRE_MESSAGE(made.ok(), std::string(made.status().message()));
      shards = *std::move(made);
    }
    const absl::Status loaded = LoadWeights(backend, Stream(), *model, weights);
    REQUIRE_MESSAGE(loaded.ok(), std::string(loaded.message()));
    if (options.lora) {
      InitLoraValues(backend, Stream(), *model, targets, 7);
      RandomizeAdapter();
    }
    if (options.offload) {
      auto offloaded =
          Optimizer::CreateOffloaded(backend, Stream(), *model, options.optimizer, *options.offload);
      REQUIRE_MESSAGE(offloaded.ok(), std::string(offloaded.status().message()));
      optimizer = *std::move(offloaded);
    } else {
      optimizer = std::make_unique<Optimizer>(backend, Stream(), *model, options.optimizer);
    }
    if (shards) {
      REQUIRE(shards->AllocateGradients().ok());
    } else {
      model->AllocateGradients(backend, Stream());
    }
    if (staged) {
      auto made = Pipeline::Create(*mesh, *model, options.schedule,
                                   {options.sharding.zero, !options.sharding.reshard_after_use});
      REQUIRE_MESSAGE(made.ok(), std::string(made.status().message()));
      pipeline = *std::move(made);
    }
    step = std::make_unique<TrainStep>(backend, Stream(), *model, *optimizer, options.step, shards.get(),
                                       pipeline.get());
  }

  // B starts at zero, where A has no gradient, and magnitudes where they do nothing: tests see all of them.
  void RandomizeAdapter() {
    for (size_t i = 0; i < model->blocks().size(); ++i) {
      const BlockChange change(model->hooks(), i);
      for (const Parameter& p : model->blocks()[i]->store().parameters()) {
        const bool magnitude = p.name.ends_with(kLoraMagnitude);
        if (!p.name.ends_with(kLoraB) && !p.name.ends_with(kLoraEmbeddingA) && !magnitude) continue;
        RandomSequence random(3, std::hash<std::string>()(p.name));
        std::vector<float> whole(p.global_size());
        for (float& v : whole) v = (random.Uniform() - 0.5f) * 0.2f;
        std::vector<float> values = SliceOf(p, whole);
        if (magnitude) {
          const std::vector<float> norms = Read(p.value);
          for (size_t j = 0; j < values.size(); ++j) values[j] += norms[j];
        }
        backend.Upload(Stream(), std::as_bytes(std::span(values)), p.value);
      }
    }
  }

  StepOutput Run(const std::vector<Batch>& microbatches, int64_t number = 1, float learning_rate = 0.0f) {
    int64_t trained = 0;
    for (const Batch& batch : microbatches) trained += batch.trained_tokens;
    return RunOf(trained, microbatches, number, learning_rate);
  }
  // `trained` tokens are those of all ranks.
  StepOutput RunOf(int64_t trained, const std::vector<Batch>& microbatches, int64_t number,
                   float learning_rate) {
    const absl::StatusOr<StepOutput> output = step->Run({.step = number,
                                                         .microbatches = microbatches,
                                                         .trained_tokens = trained,
                                                         .learning_rate = learning_rate},
                                                        [] { return false; });
    REQUIRE_MESSAGE(output.ok(), std::string(output.status().message()));
    return *output;
  }

  std::vector<float> Read(const Tensor& tensor) {
    std::vector<float> values(tensor.size());
    backend.Download(Stream(), tensor, std::as_writable_bytes(std::span(values)));
    return values;
  }
  // All gradients, by parameter.
  std::vector<std::pair<std::string, std::vector<float>>> Gradients() {
    std::vector<std::pair<std::string, std::vector<float>>> all;
    for (Parameter* p : model->parameters()) {
      if (p->trainable) all.emplace_back(p->name, Read(p->gradient));
    }
    return all;
  }

  Backend& backend;
  RandomWeights weights;
  std::unique_ptr<Model> model;
  std::unique_ptr<ModelShards> shards;
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<TrainStep> step;
};

// Samples of the given lengths packed side by side into packs of `capacity`; ids, and which are trained, are
// drawn from (seed, sample).
inline Batch MakeBatch(const std::vector<std::vector<int>>& packs, int capacity, uint64_t seed,
                       int64_t first_token = 0, int vocab = 97) {
  Batch batch;
  batch.packs = static_cast<int64_t>(packs.size());
  batch.capacity = capacity;
  batch.first_token = first_token;
  uint64_t sample = 0;
  for (const auto& pack : packs) {
    int used = 0;
    for (const int length : pack) {
      RandomSequence random(seed, 1000 + sample++);
      batch.segments.push_back({static_cast<int32_t>(batch.ids.size()), length});
      std::vector<int32_t> ids(length);
      for (int32_t& id : ids) id = static_cast<int32_t>(random.Below(vocab));
      for (int i = 0; i < length; ++i) {
        const bool trained = i + 1 < length && random.Below(3) != 0;
        batch.ids.push_back(ids[i]);
        batch.positions.push_back(i);
        batch.labels.push_back(trained ? ids[i + 1] : kIgnoreLabel);
        batch.trained_tokens += trained;
      }
      used += length;
    }
    batch.used_tokens += used;
    for (; used < capacity; ++used) {
      batch.ids.push_back(0);
      batch.positions.push_back(0);
      batch.labels.push_back(kIgnoreLabel);
    }
  }
  return batch;
}

inline double Norm(const std::vector<float>& v) {
  double sum = 0;
  for (const float x : v) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

// The design's gradient error: ‖g − g′‖ ÷ max(‖g′‖, 10⁻³ × the global norm); the worst over all parameters.
using NamedGradients = std::vector<std::pair<std::string, std::vector<float>>>;
inline double WorstGradientError(const NamedGradients& got, const NamedGradients& want) {
  double global = 0;
  for (const auto& [name, g] : want) global += Norm(g) * Norm(g);
  global = std::sqrt(global);
  REQUIRE(got.size() == want.size());
  REQUIRE(global > 0);
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    REQUIRE(got[i].first == want[i].first);
    REQUIRE(got[i].second.size() == want[i].second.size());
    std::vector<float> difference(want[i].second.size());
    for (size_t j = 0; j < difference.size(); ++j) difference[j] = got[i].second[j] - want[i].second[j];
    const double error = Norm(difference) / std::max(Norm(want[i].second), 1e-3 * global);
    if (!(error <= worst)) worst = error;  // NaN counts as worst
  }
  return worst;
}

}  // namespace ftune::testing
