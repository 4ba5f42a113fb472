// One step of a pipeline's ranks, each with a StageWork of the test's own around the model's.
#pragma once

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/pipeline/runner.h"
#include "tests/unit/engine/parity.h"

namespace ftune::testing {

template <typename Work>
struct StagedRank {
  Mesh& mesh;
  Backend& backend;
  TinyTrainer& trainer;
  const Work& work;
  std::function<void()> run;  // the step's actions
};

// `wrap` makes a rank's work of its backend and the model's work. `visit` is called on each rank, and calls
// its run.
template <typename Work>
void RunStagedStep(const TinyOptions& options, int ranks, const std::vector<Batch>& microbatches,
                   float loss_scale,
                   const std::function<std::unique_ptr<Work>(Backend&, std::unique_ptr<StageWork>)>& wrap,
                   const std::function<void(const StagedRank<Work>&)>& visit) {
  RunRanks({.pipeline = ranks}, [&](Mesh& mesh) {
    const auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options, {}, &mesh);
    std::unique_ptr<Work> work =
        wrap(*backend, std::make_unique<ModelWork>(*backend, Stream(), *trainer.model, RecomputePolicy(),
                                                   trainer.pipeline->first_trainable()));
    const Work& seen = *work;
    Runner runner(*backend, Stream(), *trainer.model, {}, trainer.pipeline.get(), std::move(work));
    const Tensor loss = backend->Allocate(DType::kF64, 1, 1, Category::kBuffers);
    backend->Zero(Stream(), loss);
    trainer.shards->BeginStep();
    const auto actions = trainer.pipeline->Actions(static_cast<int>(microbatches.size()));
    REQUIRE(actions.ok());
    visit({mesh, *backend, trainer, seen, [&] {
             CHECK(runner.Run(**actions, microbatches, {.step = 1, .loss_scale = loss_scale, .loss = loss},
                              [] { return false; }));
             runner.FinishSends();
           }});
  });
}

}  // namespace ftune::testing
