// Training on several ranks that are threads, and what comes of it in terms that know nothing of ranks.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/comm/thread_transport.h"
#include "parallel/mesh.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {

// What a transport is put into, if anything.
using WrapTransport = std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)>;

// Runs `rank` in a thread for each rank of the mesh.
inline void RunRanks(const MeshShape& shape, const std::function<void(Mesh&)>& rank,
                     const WrapTransport& wrap = nullptr) {
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadTransports(shape.ranks());
  std::vector<std::thread> threads;
  for (std::unique_ptr<Transport>& transport : transports) {
    if (wrap) transport = wrap(std::move(transport));
    threads.emplace_back([&, world = std::make_unique<Communicator>(std::move(transport))]() mutable {
      const auto mesh = Mesh::Create(shape, std::move(world));
      REQUIRE(mesh.ok());
      rank(**mesh);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A block's flat trainable tensor, put together from what the ranks own of it.
struct WholeBlock {
  std::vector<float> elements;
  std::vector<bool> known;
};

// Adds a rank's part; false where another rank has other bits.
inline bool AddPart(const FlatRange& range, const std::vector<float>& part, int64_t size, WholeBlock& whole) {
  whole.elements.resize(size);
  whole.known.resize(size);
  bool same = true;
  for (int64_t i = 0; i < range.count; ++i) {
    const int64_t at = range.begin + i;
    if (whole.known[at]) same = same && std::memcmp(&whole.elements[at], &part[i], sizeof(float)) == 0;
    whole.elements[at] = part[i];
    whole.known[at] = true;
  }
  return same;
}

// What a training run comes to.
struct RunResult {
  std::vector<StepOutput> steps;  // of rank 0
  NamedGradients gradients;       // of the last step, by parameter
  NamedGradients weights;         // f32, after it
};

struct RunPlan {
  TinyOptions options;
  int data = 1;
  int accumulation = 1;
  int steps = 3;
  float learning_rate = 0.05f;
  // The microbatch of a step, of all those of the global batch.
  std::function<Batch(int step, int microbatch)> batch;
};

inline TinyOptions Sgd() {
  TinyOptions options;
  options.optimizer = {.kind = OptimizerKind::kSgd, .momentum = 0.9f, .weight_decay = 0.1f};
  return options;
}

// Trained tokens differ from microbatch to microbatch; the last ones of the last step are empty.
inline Batch UnevenBatch(int step, int microbatch, int steps, int microbatches) {
  const int first_token = 100 * microbatch;
  if (step == steps && microbatch > 0 && 2 * microbatch >= microbatches) {
    return MakeBatch({{}, {}}, 24, 7, first_token);
  }
  const int length = 3 + (5 * microbatch + 3 * step) % 19;
  return MakeBatch({{length}, {24 - length, length / 2}}, 24, 1000 * step + microbatch, first_token);
}

inline std::vector<float> ReadF32(TinyTrainer& trainer, const Tensor& tensor) {
  if (tensor.size() == 0) return {};
  const Tensor wide = trainer.backend.Allocate(1, tensor.size(), Category::kBuffers);
  trainer.backend.Convert(Stream(), tensor, wide);
  return trainer.Read(wide);
}

inline NamedGradients ByParameter(Model& model, const std::vector<WholeBlock>& blocks) {
  NamedGradients all;
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (const Parameter& p : model.blocks()[i]->store().parameters()) {
      if (!p.trainable) continue;
      const auto begin = blocks[i].elements.begin() + p.offset;
      all.emplace_back(p.name, std::vector<float>(begin, begin + p.size()));
    }
  }
  return all;
}

inline RunResult TrainOnRanks(const RunPlan& plan) {
  const int microbatches = plan.data * plan.accumulation;
  RunResult result;
  std::vector<WholeBlock> gradients, values;
  std::mutex mutex;
  RunRanks({.data = plan.data}, [&](Mesh& mesh) {
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, plan.options, {}, &mesh);
    const int rank = mesh.Coordinate(MeshAxis::kData);
    std::vector<StepOutput> steps;
    for (int step = 1; step <= plan.steps; ++step) {
      int64_t trained = 0;
      std::vector<Batch> own;
      for (int m = 0; m < microbatches; ++m) {
        Batch batch = plan.batch(step, m);
        trained += batch.trained_tokens;
        if (m % plan.data == rank) own.push_back(std::move(batch));
      }
      steps.push_back(trainer.RunOf(trained, own, step, plan.learning_rate));
    }
    auto& blocks = trainer.model->blocks();
    const std::lock_guard lock(mutex);
    gradients.resize(blocks.size());
    values.resize(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
      const ParameterStore& store = blocks[i]->store();
      if (!store.has_trainable()) continue;
      const bool same =
          AddPart(store.owned(), ReadF32(trainer, store.owned_gradients()), store.trainable_size(),
                  gradients[i]) &&
          AddPart(store.owned(), ReadF32(trainer, store.owned_values()), store.trainable_size(), values[i]);
      CHECK(same);
    }
    if (rank == 0) result.steps = steps;
    for (size_t s = 0; s < result.steps.size(); ++s) {
      CHECK(steps[s].loss == result.steps[s].loss);
      CHECK(steps[s].overflow == result.steps[s].overflow);
      if (!steps[s].overflow) CHECK(steps[s].grad_norm == result.steps[s].grad_norm);
    }
    const auto complete = [&](const WholeBlock& whole) {
      return std::find(whole.known.begin(), whole.known.end(), false) == whole.known.end();
    };
    if (!std::all_of(values.begin(), values.end(), complete)) return;
    result.gradients = ByParameter(*trainer.model, gradients);
    result.weights = ByParameter(*trainer.model, values);
  });
  return result;
}

// What one of two ranks is given for a step, and whether it is to stop.
struct RankStep {
  StepInput input;
  std::function<bool()> stop = [] { return false; };
};

inline StepInput InputOf(int rank) {
  StepInput input = {.step = 3, .microbatches = {UnevenBatch(1, rank, 100, 2)}, .learning_rate = 0.1f};
  for (int r = 0; r < 2; ++r) input.trained_tokens += UnevenBatch(1, r, 100, 2).trained_tokens;
  return input;
}

// Runs one step on two ranks of the data axis.
inline std::vector<absl::StatusOr<StepOutput>> StepOnTwo(const std::function<RankStep(int rank)>& step_of,
                                                         const TinyOptions& options = Sgd(),
                                                         const WrapTransport& wrap = nullptr) {
  std::vector<absl::StatusOr<StepOutput>> outputs(2);
  RunRanks(
      {.data = 2},
      [&](Mesh& mesh) {
        if (wrap) mesh.set_timeout(absl::Seconds(2));
        const auto backend = MakeCpu();
        TinyTrainer trainer(*backend, options, {}, &mesh);
        const RankStep step = step_of(mesh.rank());
        outputs[mesh.rank()] = trainer.step->Run(step.input, step.stop);
      },
      wrap);
  return outputs;
}

// Relative, of the worst step.
inline double WorstDifference(const RunResult& got, const RunResult& want, double StepOutput::*field) {
  double worst = got.steps.size() == want.steps.size() ? 0.0 : INFINITY;
  for (size_t i = 0; i < std::min(got.steps.size(), want.steps.size()); ++i) {
    const double error =
        std::abs(got.steps[i].*field - want.steps[i].*field) / std::abs(want.steps[i].*field);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

}  // namespace ftune::testing
