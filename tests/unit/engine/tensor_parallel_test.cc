// Ranks of the tensor axis, as threads, against one rank: the loss and every gradient, in global coordinates.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/strings.h"
#include "engine/format/lora_files.h"
#include "engine/format/model_tensors.h"
#include "engine/format/peft.h"
#include "engine/format/tensor_slice.h"
#include "engine/model/tensor_split.h"
#include "engine/shard/tensor_ranges.h"
#include "engine/train/generate.h"
#include "parallel/comm/thread_transport.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/tiny.h"
#include "tests/unit/parallel/thread_ranks.h"

namespace ftune::testing {
namespace {

constexpr double kTolerance = 1e-5;

template <class Rank>
void RunGoodRanks(int ranks, const Rank& run) {
  RunRanks(ranks, [&](Communicator& comm) {
    run(comm);
    CHECK_MESSAGE(comm.status().ok(), std::string(comm.status().message()));
  });
}

// Models of which two ranks have unequal shares: with and without shared key heads.
std::vector<TinyOptions> UnevenOptions() {
  std::vector<TinyOptions> all;
  for (const ModelConfig& config : ArchitectureConfigs()) {
    for (const bool lora : {false, true}) {
      TinyOptions& options = all.emplace_back();
      options.config = config;
      const bool shared = config.num_kv_heads != config.num_heads;
      options.config.num_heads = shared ? 9 : 5;
      options.config.num_kv_heads = shared ? 3 : 5;
      options.config.intermediate_size = 81;
      options.lora = lora;
    }
  }
  return all;
}

// What a rank has of each gradient, and where that lies in the whole.
struct RankGradient {
  std::string name;
  std::vector<GlobalRun> runs;
  std::vector<float> values;
  int64_t global_size = 0;
};
struct RankResult {
  double loss = 0;
  std::vector<RankGradient> gradients;
  double counted_squares = 0;
};

// Sums what PartialRangesOf says, but for range number `skipped`.
void ReduceGradients(TinyTrainer& trainer, Communicator& comm, int skipped) {
  std::map<int, std::unique_ptr<Communicator>> groups;  // by size
  int number = 0;
  for (auto& block : trainer.model->blocks()) {
    for (const PartialRange& partial : PartialRangesOf(block->store())) {
      if (number++ == skipped) continue;
      std::unique_ptr<Communicator>& group = groups[partial.replicas];
      if (group == nullptr) {
        std::vector<int> members(partial.replicas);
        for (int i = 0; i < partial.replicas; ++i)
          members[i] = comm.rank() / partial.replicas * partial.replicas + i;
        auto split = comm.Split(members);
        REQUIRE(split.ok());
        group = *std::move(split);
      }
      const Tensor range = block->store().flat_gradients().Cols(partial.range.begin, partial.range.count);
      REQUIRE(group->Run(Call::AllReduce({range.bytes(), range.size(), DType::kF32, {}})).ok());
    }
  }
}

RankResult ResultOf(TinyTrainer& trainer, double loss) {
  RankResult result = {.loss = loss};
  for (const Parameter* p : trainer.model->parameters()) {
    if (!p->trainable) continue;
    result.gradients.push_back(
        {p->name, GlobalRunsOf(p->dims, 0, p->size()), trainer.Read(p->gradient), p->global_size()});
  }
  for (auto& block : trainer.model->blocks()) {
    for (const FlatRange& range : CountedRangesOf(block->store())) {
      for (const float v : trainer.Read(block->store().flat_gradients().Cols(range.begin, range.count))) {
        result.counted_squares += static_cast<double>(v) * v;
      }
    }
  }
  return result;
}

RankResult RunRank(const TinyOptions& options, const std::vector<Batch>& batches, const TensorAxis& axis,
                   Communicator* comm, int skipped = -1) {
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, options, axis);
  const double loss = trainer.Run(batches).loss;
  if (comm != nullptr) ReduceGradients(trainer, *comm, skipped);
  return ResultOf(trainer, loss);
}

// The gradients of all ranks, put together. Ranks that hold the same elements have the same bits.
NamedGradients Whole(const std::vector<RankResult>& ranks, bool* equal) {
  NamedGradients whole;
  for (size_t i = 0; i < ranks[0].gradients.size(); ++i) {
    const RankGradient& first = ranks[0].gradients[i];
    std::vector<float> values(first.global_size, 0.0f);
    std::vector<bool> seen(first.global_size, false);
    for (const RankResult& rank : ranks) {
      const RankGradient& gradient = rank.gradients[i];
      for (const GlobalRun& run : gradient.runs) {
        for (int64_t j = 0; j < run.count; ++j) {
          const float value = gradient.values[run.local + j];
          if (seen[run.global + j] && values[run.global + j] != value) *equal = false;
          values[run.global + j] = value;
          seen[run.global + j] = true;
        }
      }
    }
    CHECK_MESSAGE(std::all_of(seen.begin(), seen.end(), [](bool s) { return s; }), first.name);
    whole.emplace_back(first.name, std::move(values));
  }
  return whole;
}

struct Comparison {
  double loss_error = 0;
  double gradient_error = 0;
  std::string worst;
  double norm_error = 0;
  bool replicas_equal = true;
  bool good() const {
    return loss_error <= 1e-6 && gradient_error <= kTolerance && norm_error <= 1e-6 && replicas_equal;
  }
};

RankResult RunSingle(const TinyOptions& options, const std::vector<Batch>& batches) {
  return RunRank(options, batches, {}, nullptr);
}

Comparison CompareResults(const std::vector<RankResult>& results, const RankResult& single) {
  Comparison comparison;
  double squares = 0;
  for (const RankResult& result : results) {
    comparison.loss_error = std::max(comparison.loss_error, std::abs(result.loss / single.loss - 1));
    squares += result.counted_squares;
  }
  comparison.norm_error = std::abs(std::sqrt(squares / single.counted_squares) - 1);
  bool equal = true;
  const NamedGradients got = Whole(results, &comparison.replicas_equal);
  const NamedGradients want = Whole({single}, &equal);
  comparison.gradient_error = WorstGradientError(got, want);
  double global = 0;
  for (const auto& [name, g] : want) global += Norm(g) * Norm(g);
  double worst = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    std::vector<float> d(want[i].second.size());
    for (size_t j = 0; j < d.size(); ++j) d[j] = got[i].second[j] - want[i].second[j];
    const double error = Norm(d) / std::max(Norm(want[i].second), 1e-3 * std::sqrt(global));
    if (!(error <= worst)) worst = error, comparison.worst = want[i].first;
  }
  return comparison;
}

Comparison Compare(const TinyOptions& options, const std::vector<Batch>& batches, int ranks, bool sequence,
                   const RankResult& single, int skipped = -1) {
  std::vector<RankResult> results(ranks);
  RunGoodRanks(ranks, [&](Communicator& comm) {
    results[comm.rank()] = RunRank(options, batches, TensorAxis(comm, sequence), &comm, skipped);
  });
  return CompareResults(results, single);
}

int CountPartialRanges(const TinyOptions& options, int ranks, bool sequence) {
  auto meta = MakeMeta();
  TinyTrainer trainer(*meta, options, TensorAxis(AxisPosition{0, ranks}, sequence));
  int count = 0;
  for (auto& block : trainer.model->blocks()) {
    count += static_cast<int>(PartialRangesOf(block->store()).size());
  }
  return count;
}

// The second has no trained token, the third fewer tokens than some meshes have ranks.
std::vector<Batch> Batches() {
  return {MakeBatch({{20, 9, 12}, {33}}, 43, 5), MakeBatch({{}}, 43, 6, 86), MakeBatch({{3}}, 3, 9, 129)};
}

void Check(const TinyOptions& options, const std::string& what, const std::vector<int>& sizes = {2, 4}) {
  const RankResult single = RunSingle(options, Batches());
  for (const int ranks : sizes) {
    for (const bool sequence : {false, true}) {
      const Comparison c = Compare(options, Batches(), ranks, sequence, single);
      const std::string point =
          StrCat(what, ", ", ranks, " ranks", sequence ? ", sequence parallel" : "", ": loss ", c.loss_error,
                 ", gradients ", c.gradient_error, " at ", c.worst, ", norm ", c.norm_error, ", replicas ",
                 c.replicas_equal ? "equal" : "differ");
      CHECK_MESSAGE(c.good(), point);
    }
  }
}

TEST_CASE("tensor parallel: full fine-tuning of every architecture") {
  for (const ModelConfig& config : ArchitectureConfigs()) {
    TinyOptions options;
    options.config = Divisible(config);
    Check(options, Describe(config));
  }
}

TEST_CASE("tensor parallel: LoRA on every architecture") {
  for (const ModelConfig& config : ArchitectureConfigs()) {
    TinyOptions options;
    options.config = Divisible(config);
    options.lora = true;
    Check(options, Describe(config));
    options.lora_options.dropout = 0.2;
    Check(options, Describe(config) + ", dropout");
  }
}

TEST_CASE("tensor parallel: every kind of adapter") {
  for (TinyOptions options : AdapterOptions()) {
    options.config = Divisible(options.config);
    Check(options, "adapter");
    options.lora_options.dropout = 0.2;
    Check(options, "adapter with dropout");
  }
}

TEST_CASE("tensor parallel: biases, windows, a tied head, smoothing, noise and frozen layers") {
  std::vector<TinyOptions> variants(6);
  variants[0].config.qkv_bias = variants[0].config.output_bias = variants[0].config.mlp_bias = true;
  variants[1].config.layer_window = {0, 5, 9};
  variants[2].config.tied_head = true;
  variants[3].step.label_smoothing = 0.1f;
  variants[3].config.logit_softcap = 3.0f;
  variants[4].step.neftune_alpha = 5.0f;
  variants[5].trainable = [](const std::string& name) { return name.find("layers.1.") != std::string::npos; };
  for (TinyOptions options : variants) {
    options.config = Divisible(options.config);
    Check(options, "variant");
    options.lora = true;
    options.trainable = nullptr;
    Check(options, "variant with LoRA");
  }
}

TEST_CASE("tensor parallel: recomputation repeats the collectives on all ranks") {
  using Mode = RecomputePolicy::Mode;
  for (const ModelConfig& config : ArchitectureConfigs()) {
    for (const bool lora : {false, true}) {
      for (const RecomputePolicy recompute :
           {RecomputePolicy{Mode::kSelective, 1}, RecomputePolicy{Mode::kEveryNth, 2}}) {
        TinyOptions options;
        options.config = Divisible(config);
        options.lora = lora;
        options.lora_options.dora = lora;
        options.step.recompute = recompute;
        Check(options, Describe(config) + ", recomputed");
      }
    }
  }
}

TEST_CASE("tensor parallel: the second half of backward may run later") {
  using Mode = RecomputePolicy::Mode;
  using enum ActionKind;
  const std::vector<Action> actions = {{kForward, 0, 0},        {kForward, 0, 1},
                                       {kBackwardInput, 0, 0},  {kBackwardInput, 0, 1},
                                       {kBackwardWeight, 0, 0}, {kBackwardWeight, 0, 1}};
  const std::vector<Batch> batches = {MakeBatch({{20, 9}, {33}}, 40, 6), MakeBatch({{31}}, 40, 7)};
  const auto run = [&](const TinyOptions& options, Mode mode, const TensorAxis& axis, Communicator* comm) {
    auto backend = MakeCpu();
    TinyTrainer trainer(*backend, options, axis);
    Runner runner(*backend, Stream(), *trainer.model, {mode, 1});
    const Tensor loss = backend->Allocate(DType::kF64, 1, 1, Category::kBuffers);
    backend->Zero(Stream(), loss);
    CHECK(runner.Run(actions, batches, {.seed = 1, .step = 1, .loss_scale = 0.02f, .loss = loss},
                     [] { return false; }));
    if (comm != nullptr) ReduceGradients(trainer, *comm, -1);
    return ResultOf(trainer, 1.0);
  };
  for (const ModelConfig& config : ArchitectureConfigs()) {
    for (const bool lora : {false, true}) {
      for (const Mode mode : {Mode::kNone, Mode::kSelective}) {
        TinyOptions options;
        options.config = Divisible(config);
        options.lora = lora;
        const RankResult single = run(options, mode, {}, nullptr);
        for (const bool sequence : {false, true}) {
          std::vector<RankResult> results(2);
          RunGoodRanks(2, [&](Communicator& comm) {
            results[comm.rank()] = run(options, mode, TensorAxis(comm, sequence), &comm);
          });
          const Comparison c = CompareResults(results, single);
          CHECK_MESSAGE(c.good(), Describe(config), ": ", c.gradient_error, " at ", c.worst);
        }
      }
    }
  }
}

TEST_CASE("tensor parallel: a reduction that is left out is seen, whichever it is") {
  TinyOptions options;
  options.config = Divisible(ArchitectureConfigs()[1]);  // with norms of q and k
  for (const bool lora : {false, true}) {
    options.lora = lora;
    const RankResult single = RunSingle(options, Batches());
    for (const bool sequence : {false, true}) {
      CHECK(Compare(options, Batches(), 4, sequence, single).good());
      const int ranges = CountPartialRanges(options, 4, sequence);
      CHECK(ranges > 3);
      for (int skipped = 0; skipped < ranges; ++skipped) {
        const Comparison c = Compare(options, Batches(), 4, sequence, single, skipped);
        CHECK_MESSAGE(c.gradient_error > 10 * kTolerance, "range ", skipped, " of ", ranges);
        CHECK_FALSE(c.replicas_equal);
      }
    }
  }
}

TEST_CASE("tensor parallel: generation gives the same tokens and logits") {
  const std::vector<int32_t> prompt = {5, 17, 80, 3, 3};
  struct Generated {
    std::vector<int32_t> tokens;
    std::vector<float> logits;
  };
  const auto check = [&](const TinyOptions& options, const std::vector<int>& sizes) {
    const auto run = [&](const TensorAxis& axis) {
      auto backend = MakeCpu();
      TinyTrainer trainer(*backend, options, axis);
      auto tokens =
          Generate(*backend, Stream(), *trainer.model, 100, prompt, {.max_new_tokens = 12}, nullptr);
      CHECK(tokens.ok());
      return Generated{*std::move(tokens), AllLogits(*backend, Stream(), *trainer.model, prompt)};
    };
    const Generated want = run({});
    for (const int ranks : sizes) {
      for (const bool sequence : {false, true}) {
        RunGoodRanks(ranks, [&](Communicator& comm) {
          const Generated got = run(TensorAxis(comm, sequence));
          CHECK(got.tokens == want.tokens);
          CHECK(got.logits.size() == want.logits.size());
          std::vector<float> difference(want.logits.size());
          for (size_t i = 0; i < difference.size(); ++i) difference[i] = got.logits[i] - want.logits[i];
          CHECK(Norm(difference) <= 2e-6 * Norm(want.logits));
        });
      }
    }
  };
  for (const ModelConfig& config : ArchitectureConfigs()) {
    for (const bool lora : {false, true}) {
      TinyOptions options;
      options.config = Divisible(config);
      options.lora = lora;
      check(options, {2, 4});
    }
  }
  for (const TinyOptions& options : UnevenOptions()) check(options, {2});
}

TEST_CASE("tensor parallel: sizes that cannot split a model are refused with those that can") {
  ModelConfig config = TinyConfig();  // 6 heads, 2 for keys, intermediate_size 80
  for (const int tensor : {1, 2, 6}) CHECK(CheckTensorSplit(config, tensor).ok());
  const auto message = [&](int tensor) { return std::string(CheckTensorSplit(config, tensor).message()); };
  for (const int tensor : {3, 4, 5, 8}) CHECK(message(tensor).find("key/value heads") != std::string::npos);
  CHECK(message(4).find("parallel.tensor") != std::string::npos);
  CHECK(message(4).find("6 heads, 2 key/value heads") != std::string::npos);
  CHECK(message(4).find("one of 1, 2, 6") != std::string::npos);
  config.num_kv_heads = 6;
  for (const int tensor : {3, 4, 5, 6}) CHECK(CheckTensorSplit(config, tensor).ok());
  config.intermediate_size = 5;
  CHECK(message(6).find("intermediate_size must be") != std::string::npos);
  CHECK(message(6).find("one of 1, 2, 3, 4, 5") != std::string::npos);
}

std::vector<int64_t> LocalSizes(const Dimension& dimension, int ranks) {
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) sizes.push_back(dimension.On(rank).local_size());
  return sizes;
}

TEST_CASE("tensor parallel: uneven shares keep a key head's queries together") {
  ModelConfig config = TinyConfig();  // head_dim 8
  config.num_heads = 9;
  config.num_kv_heads = 3;
  CHECK(LocalSizes(QueryDimension(config, {0, 2}), 2) == std::vector<int64_t>{48, 24});
  CHECK(LocalSizes(KeyDimension(config, {0, 2}), 2) == std::vector<int64_t>{16, 8});
  CHECK(LargestTensorShares(config, 2).heads == doctest::Approx(4.0 / 3));
  CHECK(LargestTensorShares(config, 3).heads == 1.0);
  CHECK(LocalSizes(QueryDimension(config, {0, 9}), 9) == std::vector<int64_t>(9, 8));
  config.intermediate_size = 640;  // ten groups of 64 on three ranks; on four an even 160
  CHECK(LocalSizes(IntermediateDimension(config, {0, 3}), 3) == std::vector<int64_t>{256, 192, 192});
  CHECK(LocalSizes(IntermediateDimension(config, {0, 4}), 4) == std::vector<int64_t>(4, 160));
  config.intermediate_size = 81;
  CHECK(LocalSizes(IntermediateDimension(config, {0, 2}), 2) == std::vector<int64_t>{41, 40});
}

TEST_CASE("tensor parallel: uneven heads and intermediate sizes") {
  using Mode = RecomputePolicy::Mode;
  for (TinyOptions options : UnevenOptions()) {
    Check(options, Describe(options.config) + ", uneven", {2});
    options.step.recompute = {Mode::kSelective, 1};
    options.lora_options.dora = options.lora;
    options.lora_options.dropout = options.lora ? 0.2 : 0.0;
    Check(options, Describe(options.config) + ", uneven, recomputed", {2});
  }
  TinyOptions options;
  options.config.num_heads = options.config.num_kv_heads = 5;
  Check(options, "five heads", {2, 3, 4, 5});
  options.lora = true;
  Check(options, "five heads with LoRA", {2, 3, 4, 5});
}

TEST_CASE("tensor parallel: meta counts what each rank allocates") {
  using Mode = RecomputePolicy::Mode;
  const auto check = [](TinyOptions options, int ranks) {
    for (const Mode mode : {Mode::kNone, Mode::kSelective, Mode::kEveryNth}) {
      options.step.recompute = {mode, 2};
      for (const bool sequence : {false, true}) {
        RunGoodRanks(ranks, [&](Communicator& comm) {
          const auto peak = [&](Backend& backend, const TensorAxis& axis) {
            TinyTrainer trainer(backend, options, axis);
            trainer.Run(Batches());
            return backend.ledger().peak();
          };
          auto cpu = MakeCpu();
          auto meta = MakeMeta();
          const AxisPosition position = {comm.rank(), comm.size()};
          CHECK(peak(*cpu, TensorAxis(comm, sequence)) == peak(*meta, TensorAxis(position, sequence)));
        });
      }
    }
  };
  for (const ModelConfig& config : ArchitectureConfigs()) {
    for (const bool lora : {false, true}) {
      TinyOptions options;
      options.config = Divisible(config);
      options.lora = lora;
      check(options, 4);
    }
  }
  for (const TinyOptions& options : UnevenOptions()) check(options, 2);
}

TEST_CASE("tensor parallel: a rank takes its slice of a file's tensor") {
  // Three heads of four rows, interleaved as in GGUF; the first rank has two of them.
  std::vector<float> values(12 * 6);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  SourceTensor tensor = {
      .name = "w", .shape = {12, 6}, .bytes = std::as_bytes(std::span(values)), .file = "f"};
  for (const int64_t heads : {0, 3}) {
    tensor.interleaved_heads = heads;
    std::vector<float> ordered(values.size());
    CopySourceTensor(tensor, reinterpret_cast<std::byte*>(ordered.data()));
    for (int rank = 0; rank < 2; ++rank) {
      ParameterStore store({rank, 2});
      const Dimension cut_heads({{.parts = 3, .part_size = 4}}, {rank, 2});
      const Dimension cut_inputs({{.parts = 6}}, {rank, 2});
      for (const auto& dims :
           {std::vector<Dimension>{cut_heads, 6}, std::vector<Dimension>{12, cut_inputs}}) {
        const Parameter& p = store.Declare("w", dims, Placement::Replicate(), DType::kF32, false, false);
        std::vector<std::byte> copied;
        const auto slice = SliceForRank(tensor, p, true, copied);
        REQUIRE(slice.ok());
        CHECK(copied.empty() == dims[0].sharded());  // rows are taken from where they are
        std::vector<float> got(p.size());
        CopySourceTensor(*slice, reinterpret_cast<std::byte*>(got.data()));
        CHECK(got == SliceOf(p, ordered));
      }
    }
  }
}

TEST_CASE("tensor parallel: quantised weights are cut on blocks, or refused") {
  TinyOptions options;
  options.lora = true;
  options.config.hidden_size = 64;
  options.config.num_heads = 8;
  options.config.head_dim = 16;
  options.config.intermediate_size = 256;
  for (const DType dtype : {DType::kInt8, DType::kNF4}) {
    options.quantize = dtype;
    const RankResult single = RunSingle(options, Batches());
    for (const bool sequence : {false, true}) {
      const Comparison c = Compare(options, Batches(), 2, sequence, single);
      // The second quantisation of scales, to 8 bits, sees other scales in a slice than in the whole.
      CHECK(c.gradient_error <= (dtype == DType::kInt8 ? kTolerance : 0.02));
      CHECK(c.loss_error <= (dtype == DType::kInt8 ? 1e-6 : 1e-3));
      CHECK(c.replicas_equal);
    }
  }
  // o_proj's 128 inputs on four ranks are half a block each.
  std::vector<float> values(64 * 128);
  const SourceTensor tensor = {
      .name = "o_proj", .shape = {64, 128}, .bytes = std::as_bytes(std::span(values)), .file = "f"};
  ParameterStore store({1, 4});
  const Parameter& p = store.Declare("o_proj", {64, Dimension({{.parts = 128}}, {1, 4})},
                                     Placement::Replicate(), DType::kNF4, false, false);
  std::vector<std::byte> copied;
  const absl::Status status = SliceForRank(tensor, p, true, copied).status();
  CHECK(ExitCodeOf(status) == static_cast<int>(ExitCode::kUsage));
  CHECK(status.message().find("parallel.tensor") != std::string::npos);
  CHECK(status.message().find("o_proj") != std::string::npos);
}

std::vector<std::vector<float>> Filled(const std::vector<OutputTensor>& tensors) {
  std::vector<std::vector<float>> all;
  for (const OutputTensor& tensor : tensors) {
    int64_t count = 1;
    for (const int64_t dim : tensor.shape) count *= dim;
    CHECK(tensor.dtype == DType::kF32);
    all.emplace_back(count);
    CHECK(tensor.fill(std::as_writable_bytes(std::span(all.back())).data()).ok());
  }
  return all;
}

TEST_CASE("tensor parallel: what is written is whole, and adapters are read into slices") {
  std::vector<TinyOptions> variants = AdapterOptions();
  for (const ModelConfig& config : ArchitectureConfigs()) {
    variants.emplace_back().config = config;
    variants.back().lora = true;
  }
  for (TinyOptions& options : variants) options.config = Divisible(options.config);
  const auto check = [](const TinyOptions& options, const std::vector<int>& sizes) {
    const auto targets = LoraTargets::Resolve(options.lora_options, options.config);
    REQUIRE(targets.ok());
    auto backend = MakeCpu();
    TinyTrainer single(*backend, options);
    Model& model = *single.model;
    const auto weights = Filled(ModelTensors(*backend, Stream(), model, DType::kF32, nullptr));
    const auto adapter_tensors = AdapterTensors(*backend, Stream(), model, *targets);
    const auto adapter = Filled(adapter_tensors);
    // A tied head's adapter cannot be merged into the embedding.
    const bool mergeable = !(options.config.tied_head && targets->ChangesEnds());
    const auto merged =
        mergeable ? Filled(ModelTensors(*backend, Stream(), model, DType::kF32, &*targets)) : weights;
    const TempFolder folder;
    REQUIRE(WritePeftAdapter(folder.path(), {.lora = options.lora_options}, adapter_tensors).ok());

    for (const int ranks : sizes) {
      RunGoodRanks(ranks, [&](Communicator& comm) {
        auto own = MakeCpu();
        TinyTrainer trainer(*own, options, TensorAxis(comm, false));
        for (Parameter* p : trainer.model->parameters()) {
          if (p->trainable) own->Zero(Stream(), p->value);
        }
        auto opened = OpenPeftAdapter(folder.path());
        REQUIRE(opened.ok());
        const auto fill = PrepareLora(*own, Stream(), *trainer.model, *targets,
                                      std::make_shared<const PeftAdapter>(*std::move(opened)));
        REQUIRE_MESSAGE(fill.ok(), std::string(fill.status().message()));
        const absl::Status read = ChangeValues(*trainer.model, *fill);
        CHECK_MESSAGE(read.ok(), std::string(read.message()));
        CHECK(Filled(ModelTensors(*own, Stream(), *trainer.model, DType::kF32, nullptr)) == weights);
        CHECK(Filled(AdapterTensors(*own, Stream(), *trainer.model, *targets)) == adapter);
        if (!mergeable) return;
        const auto got = Filled(ModelTensors(*own, Stream(), *trainer.model, DType::kF32, &*targets));
        for (size_t i = 0; i < merged.size(); ++i) {
          double difference = 0;
          for (size_t j = 0; j < merged[i].size(); ++j) {
            difference = std::max(difference, std::abs(static_cast<double>(got[i][j]) - merged[i][j]));
          }
          CHECK(difference <= 1e-5);
        }
      });
    }
  };
  for (const TinyOptions& options : variants) check(options, {2, 4});
  for (const TinyOptions& options : UnevenOptions()) {
    if (options.lora) check(options, {2});
  }
}

}  // namespace
}  // namespace ftune::testing
