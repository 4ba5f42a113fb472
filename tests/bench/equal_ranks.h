// Ranks made equal for benchmarks of schedules: processes of this host with a small model of a stage each, in
// whose place they sleep for a fixed time an action.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/pipeline/pipeline.h"
#include "engine/pipeline/stage_plan.h"
#include "parallel/comm/shm_transport.h"
#include "tests/bench/sleeping_work.h"

namespace ftune {

// Of a rank's microbatch; a chunk of it takes its share.
inline constexpr StageCosts kRankCosts = {
    .forward = 0.016, .backward_input = 0.016, .backward_weight = 0.016};
inline constexpr int64_t kTokens = 16;

template <class T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", std::string(value.status().message()).c_str());
  _exit(1);
}

struct Case {
  ScheduleKind kind;
  int ranks, chunks, microbatches;

  ScheduleSource Source() const { return {.kind = kind, .chunks = chunks, .costs = {.stages = {Costs()}}}; }
  StageCosts Costs() const {
    return {kRankCosts.forward / chunks, kRankCosts.backward_input / chunks,
            kRankCosts.backward_weight / chunks};
  }
  double Ideal() const {
    return microbatches * (kRankCosts.forward + kRankCosts.backward_input + kRankCosts.backward_weight);
  }
};

// A model with a block for each stage at least, whose rows are what is sent.
inline ModelConfig SmallConfig(int stages) {
  ModelConfig config;
  config.model_type = "llama";
  config.vocab_size = 16;
  config.hidden_size = config.intermediate_size = 16;
  config.num_layers = std::max(1, stages - 2);
  config.num_heads = config.num_kv_heads = 2;
  config.head_dim = 8;
  config.max_position = kTokens;
  config.layer_window.resize(config.num_layers, 0);
  return config;
}

inline Batch BatchOf(int microbatch) {
  Batch batch;
  batch.packs = 1;
  batch.capacity = batch.used_tokens = batch.trained_tokens = kTokens;
  batch.ids.assign(kTokens, 1);
  batch.positions.assign(kTokens, 0);
  batch.labels.assign(kTokens, 2);
  batch.segments = {{0, kTokens}};
  batch.first_token = microbatch * kTokens;
  return batch;
}

inline std::unique_ptr<Model> MakeModel(Backend& backend, const Mesh& mesh, const Case& at,
                                        ValueMemory memory) {
  const ModelConfig config = SmallConfig(at.ranks * at.chunks);
  const ScheduleShape shape = Must(at.Source().Shape(at.ranks));
  const std::vector<double> even(config.num_layers + 2, 1.0);
  const ParameterPolicy policy = {.trainable = [](const std::string&) { return true; },
                                  .dtype = [](const std::string&, bool) { return DType::kF32; }};
  return std::make_unique<Model>(backend, Stream(), config, policy, kTokens, TensorAxis(), memory,
                                 PartOf(shape, mesh.rank(), BalanceStages(even, shape.stages())));
}

inline std::unique_ptr<Pipeline> MakePipeline(Mesh& mesh, const Case& at, const Model& model) {
  return Must(Pipeline::Create(mesh, model, at.Source(), {}));
}

// Of a transfer whose receiver waits: half of there and back.
inline double MeasureLatency(Backend& backend, Mesh& mesh) {
  const Case at = {ScheduleKind::k1F1B, mesh.world().size(), 1, 1};
  const std::unique_ptr<Model> model = MakeModel(backend, mesh, at, ValueMemory::kOwn);
  const auto pipeline = MakePipeline(mesh, at, *model);
  const Tensor x = NewRows(backend, *model, kTokens);
  std::vector<double> times;
  constexpr int kRounds = 101;
  for (int i = 0; i < kRounds && mesh.rank() < 2; ++i) {
    const bool first = mesh.rank() == 0;
    constexpr double kPause = 0.003;  // what was just used is not at hand
    const double begin = MachineTime() + kPause;
    if (first) SleepUntil(begin);
    if (first) pipeline->Send({}, x, 1).Wait().IgnoreError();
    pipeline->Receive({}, x, first ? 1 : 0).Wait().IgnoreError();
    if (!first) pipeline->Send({}, x, 0).Wait().IgnoreError();
    times.push_back((MachineTime() - begin) / 2);
  }
  if (mesh.rank() != 0) return Must(mesh.world().AllReduce(0.0));
  std::nth_element(times.begin(), times.begin() + kRounds / 2, times.end());
  return Must(mesh.world().AllReduce(times[kRounds / 2]));
}

inline std::string LoadOfMachine() {
  double load = 0;
  getloadavg(&load, 1);
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", load);
  return text;
}

// Runs `rank` on so many processes; it says whether all was as it must be. → whether it was on all.
inline bool OnEqualRanks(int ranks, const std::function<bool(Mesh&)>& rank) {
  std::fflush(stdout);
  for (int i = 0; i < ranks; ++i) {
    if (fork() != 0) continue;
    prctl(PR_SET_TIMERSLACK, 1);  // nanoseconds
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto world = std::make_unique<Communicator>(Must(
        JoinSharedMemory({.rank = i, .size = ranks, .name = StrCat("equal-ranks-", getppid(), "-", ranks)})));
    const auto mesh = Must(Mesh::Create({.pipeline = ranks}, std::move(world)));
    mesh->set_timeout(absl::Seconds(30));
    const bool right = rank(*mesh);
    std::fflush(stdout);
    _exit(right ? 0 : 1);
  }
  bool right = true;
  for (int status = 0; wait(&status) > 0;) right = right && status == 0;
  return right;
}

// Numbers of ranks on the command line; 2, 4 and 8 if there are none.
inline std::vector<int> RanksOf(int argc, char** argv) {
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  return sizes.empty() ? std::vector<int>{2, 4, 8} : sizes;
}

// A table of Markdown under `head`, to which `rank` adds the rows of each number of ranks. → the exit status
inline int PrintTable(const char* head, const std::vector<int>& sizes,
                      const std::function<bool(Mesh&)>& rank) {
  std::fputs(head, stdout);
  bool ok = true;
  for (const int ranks : sizes) ok = OnEqualRanks(ranks, rank) && ok;
  std::printf("%s; load of the machine %s\n", ok ? "all as they must be" : "WRONG", LoadOfMachine().c_str());
  return ok ? 0 : 1;
}

}  // namespace ftune
