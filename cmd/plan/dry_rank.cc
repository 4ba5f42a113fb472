#include "cmd/plan/dry_rank.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cmd/plan/dry_batches.h"
#include "cmd/plan/memory_track.h"
#include "cmd/plan/peak_moment.h"
#include "cmd/plan/span_track.h"
#include "cmd/plan/tensor_names.h"
#include "cmd/plan/time_listeners.h"
#include "cmd/train/rank_parts.h"
#include "engine/backend/cpu/cpu_workspace.h"
#include "engine/backend/meta/accelerator_workspace.h"
#include "engine/backend/meta/meta_backend.h"
#include "engine/train/step.h"
#include "parallel/comm/counting_transport.h"
#include "parallel/mesh.h"

namespace ftune {
namespace {

// What a step leaves for the next, such as weights that it may have to take back, is there in the second.
constexpr int kSteps = 2;

void CountParameters(const Model& model, DryRank& dry) {
  for (const auto& block : model.blocks()) {
    if (block->copy()) continue;
    for (const Parameter& p : std::as_const(*block).store().parameters()) {
      dry.parameters += p.global_size();
      if (p.trainable) dry.trainable += p.global_size();
    }
  }
}

// → memory at the highest peak of a step.
absl::StatusOr<MemoryUse> Train(const Recipe& recipe, const std::vector<Batch>& microbatches, Ledger& ledger,
                                TrainStep& step, const std::function<void()>& before_step) {
  MemoryUse highest;
  int64_t tokens = 0;
  for (const Batch& batch : microbatches) tokens += batch.trained_tokens;
  for (int i = 1; i <= kSteps; ++i) {
    ledger.ResetPeak();
    before_step();
    const absl::StatusOr<StepOutput> output = step.Run({.step = i,
                                                        .microbatches = microbatches,
                                                        .trained_tokens = tokens * *recipe.parallel.data,
                                                        .learning_rate = 1e-3f},
                                                       [] { return false; });
    FTUNE_RETURN_IF_ERROR(output.status());
    if (ledger.peak().total() > highest.total()) highest = ledger.peak();
  }
  FTUNE_RETURN_IF_ERROR(step.status());
  return highest;
}

// Whether a run that saves goes on then. Where it saves by the clock, it may.
bool StepsFollowSave(const Recipe& recipe, PackContent content) {
  const CheckpointSection& checkpoint = recipe.checkpoint;
  if (checkpoint.keep_best || checkpoint.saves_per_epoch) return true;
  if (!checkpoint.save_steps) return content == PackContent::kFull;
  return !recipe.train.max_steps || *checkpoint.save_steps < *recipe.train.max_steps;
}

// The trace of a step for all of which so many bytes more are kept.
void AddKept(int64_t bytes, DryTrace& trace) {
  for (MemorySample& sample : trace.memory) sample.use[Category::kBuffers] += bytes;
  const LiveTensors kept = {
      .category = Category::kBuffers, .bytes = bytes, .count = 1, .made_in = "save, kept for the next one"};
  const auto place =
      std::upper_bound(trace.at_peak.begin(), trace.at_peak.end(), kept,
                       [](const LiveTensors& a, const LiveTensors& b) { return a.total() > b.total(); });
  trace.at_peak.insert(place, kept);
}

std::unique_ptr<const WorkspaceSizes> WorkspaceOf(bool accelerator, int threads) {
  if (accelerator) return std::make_unique<AcceleratorWorkspaceSizes>();
  return std::make_unique<CpuWorkspaceSizes>(threads);
}

}  // namespace

absl::StatusOr<DryRank> RunDry(const Recipe& recipe, const ModelPlan& model,
                               const std::optional<PipelinePlan>& stages, int rank,
                               const DryOptions& options) {
  DryRank dry;
  const DeviceModel unknown;  // takes no time
  const DeviceModel& device = options.device != nullptr ? *options.device : unknown;
  const bool accelerator = options.device != nullptr && !device.is_cpu;
  VirtualClock clock(device, options.places, options.trace ? &dry.trace.spans : nullptr);
  const MeshShape shape = ToMeshShape(recipe.parallel);
  auto world = std::make_unique<Communicator>(MakeCountingTransport(rank, shape.ranks()));
  world->set_observers({&clock});
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<Mesh> mesh, Mesh::Create(shape, std::move(world)));
  MetaBackend backend(WorkspaceOf(accelerator, static_cast<int>(*recipe.launch.threads)), device.activations);
  backend.set_op_listener(&clock);
  backend.set_disk_listener(&clock);
  // Where the device is not known no time passes; a microsecond an allocation keeps what is done in its
  // order.
  const auto now = [&] {
    return options.device != nullptr ? clock.now()
                                     : 1e-6 * static_cast<double>(backend.ledger().allocations());
  };
  PeakMoment moment(backend.ledger());
  SpanTrack spans(now);
  std::optional<MemoryTrack> memory;
  if (options.trace) memory.emplace(backend.ledger(), moment, now);
  TimeListeners listeners({&moment, &spans});
  Timeline timeline;
  timeline.set_listener(&listeners);

  LoadModelOptions load = model.options;
  load.shapes_only = true;
  PlaceOnMesh(recipe, *mesh, stages, load);
  LoadedModel loaded;
  RankParts parts;
  {
    const TimeScope time(&timeline, kStepLane, "load the model");
    FTUNE_ASSIGN_OR_RETURN(loaded, LoadModel(backend, Stream(), model.model_path, load));
  }
  {
    const TimeScope time(&timeline, kStepLane, "set up training");
    FTUNE_ASSIGN_OR_RETURN(parts, MakeRankParts(recipe, backend, *mesh, stages, *recipe.output_dir, loaded));
  }
  dry.ready = backend.ledger().current();
  CountParameters(*loaded.model, dry);
  if (!stages && dry.trainable == 0) {
    return UsageError({.key = "train.freeze",
                       .message = "nothing is left to train",
                       .expected = "patterns that leave some of the parameters"});
  }
  if (memory) FTUNE_RETURN_IF_ERROR(NameTensors(*loaded.model, *parts.optimizer, *memory));

  TrainStep::Options step_options = ToTrainerOptions(recipe, {}).step;
  step_options.timeline = &timeline;
  TrainStep step(backend, Stream(), *loaded.model, *parts.optimizer, step_options, loaded.shards.get(),
                 parts.pipeline.get());
  step.runner().set_timeline(&timeline);
  const std::vector<Batch> microbatches = DryMicrobatches(recipe, options.content, options.typical);
  double evaluation_seconds = 0.0;
  if (recipe.data.has_evaluation()) {
    const double evaluation_begin = now();
    const TimeScope time(&timeline, kStepLane, "evaluation");
    const Tensor loss = backend.Allocate(DType::kF64, 1, 1, Category::kBuffers);
    step.runner().Evaluate(microbatches.front(), loss);
    evaluation_seconds = now() - evaluation_begin;
  }
  const WorkCounter before = backend.work();
  double begin = 0.0;
  VirtualTimes before_step;
  FTUNE_ASSIGN_OR_RETURN(dry.step, Train(recipe, microbatches, backend.ledger(), step, [&] {
                           begin = now();
                           before_step = clock.times();
                           spans.Clear();
                           dry.trace.spans.clear();
                           if (memory) memory->BeginStep();
                         }));
  if (options.device != nullptr) {
    dry.times = TimesOf(now() - begin, spans.spans(), clock.times() - before_step, clock.transfer_seconds());
    dry.times->evaluation = evaluation_seconds;
  }
  if (memory) {
    dry.trace.timed = options.device != nullptr;
    dry.trace.memory = memory->TakeSamples();
    dry.trace.at_peak = memory->AtPeak();
    dry.trace.spans.insert(dry.trace.spans.end(), spans.spans().begin(), spans.spans().end());
    for (TimeSpan& span : dry.trace.spans) {
      span.begin -= begin;
      span.end -= begin;
    }
  }
  dry.useful_flops = (backend.work().useful_flops - before.useful_flops) / kSteps;
  dry.recomputed_flops = (backend.work().recomputed_flops - before.recomputed_flops) / kSteps;
  dry.peak = moment.peak();
  dry.moment = moment.Describe();
  DrySave save;
  {
    const TimeScope time(&timeline, kStepLane, "save");
    FTUNE_ASSIGN_OR_RETURN(save, SaveDry(recipe, backend, loaded, *parts.optimizer));
  }
  dry.saved = save.bytes;
  // What is kept for the next save is there in the steps after the first: of a device with its own memory, in
  // that of its host.
  const int64_t kept = save.snapshot.defined() ? AllocationBytes(save.snapshot.size()) : 0;
  dry.host_bytes = accelerator ? kept : 0;
  dry.saved_step = dry.step;
  if (!accelerator) {
    dry.saved_step[Category::kBuffers] += kept;
    if (StepsFollowSave(recipe, options.content)) {
      dry.peak[Category::kBuffers] += kept;
      if (memory && kept > 0) AddKept(kept, dry.trace);
    }
  }
  if (!accelerator && moment.peak().total() > dry.peak.total()) {
    dry.peak = moment.peak();
    dry.moment = moment.Describe();
    if (memory) dry.trace.at_peak = memory->AtPeak();
  }
  return dry;
}

}  // namespace ftune
