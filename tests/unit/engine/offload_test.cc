// Optimizer states on disk: the same weights and states to the bit, whatever is cut where.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cstring>

#include "base/error.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

using NamedBytes = std::vector<std::pair<std::string, std::vector<std::byte>>>;

std::vector<std::byte> BytesOf(Backend& backend, const Tensor& tensor) {
  std::vector<std::byte> bytes(BytesFor(tensor.dtype(), tensor.size()));
  backend.Download(Stream(), tensor, bytes);
  return bytes;
}

Batch BatchOf(int step) { return MakeBatch({{20, 9, 11}, {33}}, 48, step); }

// All weights, and all that is kept for them, after some steps; and between them, where `between`.
NamedBytes Train(TinyTrainer& trainer, bool between) {
  NamedBytes all;
  const auto add_state = [&](Parameter* p) {
    const auto state = trainer.optimizer->StateOf(*p);
    REQUIRE_MESSAGE(state.ok(), std::string(state.status().message()));
    for (const NamedTensor& s : *state) {
      all.emplace_back(p->name + " " + s.name, BytesOf(trainer.backend, s.tensor));
    }
  };
  const std::vector<Parameter*> parameters = trainer.model->parameters();
  for (int step = 1; step <= 4; ++step) {
    trainer.Run({BatchOf(step), BatchOf(10 + step)}, step, 1e-2f);
    if (between) {
      for (Parameter* p : parameters) add_state(p);
    }
  }
  for (Parameter* p : parameters) {
    if (!p->trainable) continue;
    all.emplace_back(p->name, BytesOf(trainer.backend, p->value));
    if (!between) add_state(p);
  }
  return all;
}

NamedBytes Train(const TinyOptions& options, bool between) {
  auto backend = MakeCpu(2);
  TinyTrainer trainer(*backend, options);
  return Train(trainer, between);
}

void CheckSame(TinyOptions options, const std::vector<int64_t>& piece_sizes) {
  const TempFolder folder;
  for (const bool between : {false, true}) {
    options.offload.reset();
    const NamedBytes want = Train(options, between);
    for (const int64_t piece_bytes : piece_sizes) {
      for (const bool use_uring : {true, false}) {
        CAPTURE(piece_bytes);
        CAPTURE(use_uring);
        options.offload = {.disk = {.folder = folder.path(), .use_uring = use_uring},
                           .piece_bytes = piece_bytes};
        const NamedBytes got = Train(options, between);
        REQUIRE(got.size() == want.size());
        for (size_t i = 0; i < want.size(); ++i) {
          CHECK(got[i].first == want[i].first);
          CHECK_MESSAGE(got[i].second == want[i].second, want[i].first);
        }
      }
    }
  }
}

// Large enough a model that runs are cut.
TinyOptions Options(OptimizerKind kind, DType dtype = DType::kF32) {
  TinyOptions options;
  options.config.vocab_size = 397;
  options.trainable_dtype = dtype;
  options.optimizer.kind = kind;
  options.optimizer.weight_decay = 0.1f;
  if (kind == OptimizerKind::kMuon || kind == OptimizerKind::kSgd) options.optimizer.momentum = 0.9f;
  return options;
}

// Parts of a run, some blocks, all in one.
const std::vector<int64_t> kPieceSizes = {40'000, 150'000, 1 << 30};

TEST_CASE("every optimizer gives the same weights and states from disk, to the bit") {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kMuon,
                                   OptimizerKind::kSgd, OptimizerKind::kLion, OptimizerKind::kAdafactor}) {
    CAPTURE(static_cast<int>(kind));
    CheckSame(Options(kind), kPieceSizes);
  }
}

TEST_CASE("masters of low-precision weights, and weights without, are the same from disk, to the bit") {
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit}) {
    for (const bool master : {true, false}) {
      CAPTURE(master);
      TinyOptions options = Options(kind, DType::kBF16);
      options.optimizer.master = master;
      CheckSame(options, kPieceSizes);
    }
  }
}

TEST_CASE("an adapter's states are the same from disk, to the bit") {
  TinyOptions options;
  options.lora = true;
  CheckSame(options, {5'000, 1 << 30});
}

TEST_CASE("an optimizer that keeps nothing moves nothing") {
  const TempFolder folder;
  TinyOptions options;
  options.optimizer.kind = OptimizerKind::kSgd;
  options.offload = {.disk = {.folder = folder.path()}};
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, options);
  CHECK(trainer.optimizer->disk() == nullptr);
  trainer.Run({BatchOf(1)}, 1, 1e-2f);
}

TEST_CASE("pieces hold every element once, and no more than they may") {
  auto backend = MakeMeta();
  for (const OptimizerKind kind : {OptimizerKind::kAdamW, OptimizerKind::kAdamW8bit, OptimizerKind::kMuon}) {
    const TinyOptions options = Options(kind, DType::kBF16);
    TinyTrainer trainer(*backend, options);
    const auto rules = MakeRules(options.optimizer);
    std::vector<Shard> shards;
    int64_t elements = 0;
    for (const auto& block : trainer.model->blocks()) {
      elements += block->store().trainable_size();
      shards.push_back(LayOutShard(*block, shards.size(), rules, options.optimizer));
    }
    const std::vector<Piece> pieces = CutIntoPieces(shards, 100'000);
    CHECK(pieces.size() > shards.size());
    CHECK(pieces.front().shard == &shards.back());
    int64_t found = 0;
    for (const Piece& piece : pieces) {
      const bool whole = piece.parts.size() == 1 && !piece.parts[0].run->rule->elementwise();
      CHECK((piece.bytes <= 100'000 || whole));
      int64_t end = 0;
      for (const PiecePart& part : piece.parts) {
        found += part.count;
        for (const PieceTensor& tensor : part.tensors) {
          CHECK(tensor.offset >= end);
          CHECK(tensor.offset % 64 == 0);
          end = tensor.offset + BytesFor(tensor.dtype, tensor.size);
        }
      }
      CHECK(end <= piece.bytes);
    }
    CHECK(found == elements);
  }
}

TEST_CASE("a disk that fails ends the step with its error") {
  const TempFolder folder;
  TinyOptions options = Options(OptimizerKind::kAdamW);
  options.offload = {.disk = {.folder = folder.path()}, .piece_bytes = 40'000};
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, options);
  rlimit old_limit;
  getrlimit(RLIMIT_FSIZE, &old_limit);
  rlimit limit = old_limit;
  limit.rlim_cur = 65536;
  const auto old_action = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  const Batch batch = BatchOf(1);
  const auto output = trainer.step->Run(
      {.step = 1, .microbatches = {batch}, .trained_tokens = batch.trained_tokens, .learning_rate = 1e-2f},
      [] { return false; });
  setrlimit(RLIMIT_FSIZE, &old_limit);
  signal(SIGXFSZ, old_action);
  CHECK(NotSaid(output.status(), folder.path().string(), "write ", "the optimizer's states (memory.offload)",
                "ulimit -f") == "");
  CHECK(ExitCodeOf(output.status()) == 4);
}

TEST_CASE("a folder that is not there is refused before anything is computed") {
  TinyOptions options;
  auto backend = MakeCpu();
  TinyTrainer trainer(*backend, options);
  const auto optimizer = Optimizer::CreateOffloaded(*backend, Stream(), *trainer.model, options.optimizer,
                                                    {.disk = {.folder = "no/such/folder"}});
  CHECK(NotSaid(optimizer.status(), "no/such/folder", "memory.offload", "check the path") == "");
}

}  // namespace
}  // namespace ftune::testing
