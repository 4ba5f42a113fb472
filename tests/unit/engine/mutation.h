// Leaving out the collectives of a run one by one, on all ranks: the comparison with one rank must see each.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/unit/engine/faulty_transport.h"
#include "tests/unit/engine/parity.h"

namespace ftune::testing {

inline WrapTransport Faulty(const MeshShape& shape, const CallFaults& faults, CallLog* log = nullptr) {
  return [&, shape, log](std::unique_ptr<Transport> transport) {
    return std::make_unique<FaultyTransport>(std::move(transport), shape, faults, log);
  };
}

// A barrier in every group before each step, so that its calls are found whatever ran before.
inline void MarkStep(Mesh& mesh) {
  mesh.world().Run(Call::Barrier()).IgnoreError();
  for (const MeshAxis axis : {MeshAxis::kTensor, MeshAxis::kData, MeshAxis::kPipeline}) {
    mesh.axis(axis).Run(Call::Barrier()).IgnoreError();
  }
}

// Of the first step, with the update that the second one starts from. Groups that are parts of an axis see no
// barrier: of both steps, but for gathering, which after the last one nobody needs. Not the world's: those
// are agreements, and the comparison's own.
inline bool IsWalked(const LoggedCall& call) {
  if (call.place.group == "world") return false;
  const bool part = call.place.group.find('/') != std::string::npos;
  return part ? call.signature.kind != CallKind::kAllGather : call.place.phase == 1;
}

// Far beyond what rounding does.
inline bool IsWrong(const absl::StatusOr<VerifyResult>& result) {
  constexpr double kBeyondDoubt = 10.0;
  return !result.ok() || result->worst().error > kBeyondDoubt * result->worst().tolerance;
}

// → how many calls were left out, one at a time.
inline int LeaveOutEach(const std::string& name, const TinyOptions& options, const MeshPoint& point) {
  const OneRank one(options);
  CallLog log;
  const auto whole = one.Compare(point, Faulty(point.shape, {}, &log), MarkStep);
  REQUIRE_MESSAGE(whole.ok(), std::string(whole.status().message()));
  CHECK(whole->ok());
  int walked = 0;
  for (const LoggedCall& call : log.Take()) {
    if (!IsWalked(call)) continue;
    ++walked;
    const CallFaults faults = {.left_out = {call.place}};
    const auto got = one.Compare(point, Faulty(point.shape, faults), MarkStep);
    CHECK_MESSAGE(IsWrong(got), name, ", ", point.Describe(), ": ", call.Describe());
  }
  return walked;
}

inline TinyOptions ModelOf(const Architecture& architecture, bool lora = false) {
  TinyOptions options = Sgd();
  for (const ModelConfig& config : ArchitectureConfigs()) {
    if (config.architecture == &architecture) options.config = Divisible(config);
  }
  options.config.tied_head = !lora;
  options.lora = lora;
  options.step.max_grad_norm = 1.0f;  // less than it is
  options.sharding.bucket_bytes = 40'000;
  return options;
}

}  // namespace ftune::testing
