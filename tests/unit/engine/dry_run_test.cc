// The engine run dry, on meta and with nobody to talk to: a rank's ledger and its work are those of the
// rank in a real run, to the byte and in the same order.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "parallel/comm/counting_transport.h"
#include "tests/unit/engine/parity.h"

namespace ftune::testing {
namespace {

// What a rank allocated and computed.
struct Account {
  MemoryUse current, peak;
  int64_t allocations = 0;
  uint64_t digest = 0;
  double useful_flops = 0, recomputed_flops = 0;

  bool operator==(const Account&) const = default;
};

std::string InWords(const Account& a) {
  std::string text =
      StrCat("allocations ", a.allocations, ", flops ", a.useful_flops, " + ", a.recomputed_flops, ", peak");
  for (int c = 0; c < kCategories; ++c) {
    StrAppend(text, " ", Name(static_cast<Category>(c)), " ", a.peak.bytes[c]);
  }
  return text;
}

Account TrainTwoSteps(Backend& backend, Mesh& mesh, TinyOptions options, const MeshPoint& point) {
  options.sharding.zero = point.zero;
  options.schedule = point.schedule;
  options.sharding.reshard_after_use = point.reshard_after_use;
  options.sharding.persistence_threshold = 100;
  TinyTrainer trainer(backend, options, TensorAxis(mesh.axis(MeshAxis::kTensor), point.sequence), &mesh);
  PackSource batches(point, mesh.Coordinate(MeshAxis::kData), nullptr);
  for (int step = 1; step <= 2; ++step) {
    const auto next = batches.Next();
    trainer.RunOf((*next)->trained_tokens, (*next)->microbatches, step, 1e-3f);
  }
  return {.current = backend.ledger().current(),
          .peak = backend.ledger().peak(),
          .allocations = backend.ledger().allocations(),
          .digest = backend.ledger().digest(),
          .useful_flops = backend.work().useful_flops,
          .recomputed_flops = backend.work().recomputed_flops};
}

void CheckEachRank(const TinyOptions& options, const MeshPoint& point) {
  CAPTURE(point.Describe());
  std::vector<Account> real(point.shape.ranks());
  RunRanks(point.shape, [&](Mesh& mesh) {
    const auto backend = MakeCpu();
    real[mesh.rank()] = TrainTwoSteps(*backend, mesh, options, point);
  });
  for (int rank = 0; rank < point.shape.ranks(); ++rank) {
    CAPTURE(rank);
    const auto mesh = Mesh::Create(
        point.shape, std::make_unique<Communicator>(MakeCountingTransport(rank, point.shape.ranks())));
    REQUIRE(mesh.ok());
    const auto meta = MakeMeta();
    const Account dry = TrainTwoSteps(*meta, **mesh, options, point);
    CHECK_MESSAGE(dry == real[rank], "dry: ", InWords(dry), "\nreal: ", InWords(real[rank]));
  }
}

TEST_CASE("dry: data, ZeRO") {
  for (const int zero : {0, 1, 2, 3}) {
    for (const int accumulation : {1, 2}) {
      CheckEachRank({}, {.shape = {.data = 2}, .zero = zero, .accumulation = accumulation});
    }
  }
  CheckEachRank({}, {.shape = {.data = 3}, .zero = 3, .reshard_after_use = false});
}

TEST_CASE("dry: tensor and sequence") {
  TinyOptions options;
  options.config = Divisible(TinyConfig());
  for (const bool sequence : {false, true}) {
    CheckEachRank(options, {.shape = {.tensor = 2}, .sequence = sequence});
    CheckEachRank(options, {.shape = {.tensor = 2, .data = 2}, .zero = 3, .sequence = sequence});
  }
}

TEST_CASE("dry: adapters, families, recomputation") {
  TinyOptions lora;
  lora.lora = true;
  CheckEachRank(lora, {.shape = {.data = 2}, .zero = 3});
  for (const ModelConfig& config : ArchitectureConfigs()) {
    TinyOptions options;
    options.config = Divisible(config);
    CAPTURE(testing::Describe(config));
    CheckEachRank(options, {.shape = {.tensor = 2, .data = 2}, .zero = 2});
  }
  using Mode = RecomputePolicy::Mode;
  for (const Mode mode : {Mode::kSelective, Mode::kEveryNth}) {
    TinyOptions options;
    options.step.recompute = {mode, 1};
    CheckEachRank(options, {.shape = {.tensor = 2, .data = 2}, .zero = 3, .sequence = true});
  }
}

}  // namespace
}  // namespace ftune::testing
