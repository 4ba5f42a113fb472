// Pipelines that go wrong in one place: the comparison with one rank must see it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/engine/mutation.h"
#include "tests/unit/engine/staged_step.h"

TEST_SUITE_BEGIN("pipeline");

namespace ftune::testing {
namespace {

TinyOptions TiedLlama() {
  TinyOptions options = ModelOf(kLlama);
  options.config.tied_head = true;
  return options;
}

TEST_CASE("a collective of a pipeline that is left out is seen, whichever it is") {
  using enum ScheduleKind;
  const auto point = [](const MeshShape& shape, int zero, bool sequence, int accumulation, ScheduleKind kind,
                        int chunks = 1) {
    return MeshPoint{shape, zero, sequence, accumulation, {.kind = kind, .chunks = chunks}};
  };
  const MeshShape two = {.pipeline = 2};
  CHECK(LeaveOutEach("tied llama", TiedLlama(), point(two, 0, false, 3, k1F1B)) > 15);
  CHECK(LeaveOutEach("tied llama", TiedLlama(), point(two, 0, false, 3, kZbV, 2)) > 25);
  CHECK(LeaveOutEach("llama with LoRA", ModelOf(kLlama, true), point(two, 0, false, 3, kZbH1)) > 12);
  CHECK(LeaveOutEach("gpt2", ModelOf(kGpt2), point({.pipeline = 4}, 0, false, 3, kGPipe)) > 36);
  const MeshShape square = {.data = 2, .pipeline = 2};
  for (const int zero : {1, 2, 3}) {
    CHECK(LeaveOutEach("tied llama", TiedLlama(), point(square, zero, false, 2, kZbH1)) > 18);
  }
  CHECK(LeaveOutEach("tied llama", TiedLlama(),
                     point({.tensor = 2, .pipeline = 2}, 0, true, 2, kInterleaved, 2)) > 40);
}

TEST_CASE("the sum of a tied weight that is left out is seen") {
  for (const int zero : {0, 2}) {
    const MeshPoint point = {{.data = 2, .pipeline = 2}, zero, false, 2, {.kind = ScheduleKind::k1F1B}};
    const OneRank one(TiedLlama());
    CallLog log;
    REQUIRE(one.Compare(point, Faulty(point.shape, {}, &log), MarkStep).ok());
    CallFaults faults;
    for (const LoggedCall& call : log.Take()) {
      const bool of_two_stages = call.place.group.starts_with("pipeline/");
      if (of_two_stages && call.signature.kind == CallKind::kAllReduce) faults.left_out.insert(call.place);
    }
    REQUIRE(faults.left_out.size() == kParitySteps);
    const auto got = one.Compare(point, Faulty(point.shape, faults), MarkStep);
    REQUIRE(got.ok());
    CHECK(IsWrong(got));
    CHECK(got->gradient.what.find("embed_tokens") != std::string::npos);
  }
}

// What one link of two stages does wrong, once.
struct LinkFault {
  enum class Kind {
    kNone,
    kStale,      // a message is the one before it
    kExchanged,  // a message and the next one come in each other's place
  };
  Kind kind = Kind::kNone;
  bool upwards = true;  // activations; or gradients
  int message = 1;      // of the link, from 0
};

class FaultyLinks final : public Transport {
 public:
  FaultyLinks(std::unique_ptr<Transport> under, const LinkFault& fault)
      : under_(std::move(under)), fault_(fault) {}

  int rank() const override { return under_->rank(); }
  int size() const override { return under_->size(); }
  absl::Status Run(const Call& call) override {
    const int sender = fault_.upwards ? 0 : 1;
    if (call.kind == CallKind::kSend && rank() == sender && fault_.kind == LinkFault::Kind::kExchanged) {
      return Exchange(call);
    }
    FTUNE_RETURN_IF_ERROR(under_->Run(call));
    if (call.kind == CallKind::kReceive && rank() != sender && fault_.kind == LinkFault::Kind::kStale) {
      MakeStale(call);
    }
    return absl::OkStatus();
  }
  absl::StatusOr<SharedBytes> Allocate(int64_t bytes) override { return under_->Allocate(bytes); }
  absl::StatusOr<std::unique_ptr<Transport>> Split(const std::vector<int>& members) override {
    FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> part, under_->Split(members));
    return std::unique_ptr<Transport>(new FaultyLinks(std::move(part), fault_));
  }
  void set_timeout(absl::Duration timeout) override { under_->set_timeout(timeout); }
  void Abort(const absl::Status& status) override { under_->Abort(status); }
  absl::Status status() const override { return under_->status(); }

 private:
  void MakeStale(const Call& call) {
    if (message_++ == fault_.message) {
      REQUIRE(call.out.bytes() == static_cast<int64_t>(kept_.size()));
      std::memcpy(call.out.data, kept_.data(), kept_.size());
    } else {
      kept_.assign(call.out.data, call.out.data + call.out.bytes());
    }
  }
  absl::Status Exchange(const Call& call) {
    const int message = message_++;
    if (message == fault_.message) {
      held_ = call;
      kept_.assign(call.in.data, call.in.data + call.in.bytes());
      return absl::OkStatus();
    }
    if (message != fault_.message + 1) return under_->Run(call);
    REQUIRE(call.in.bytes() == static_cast<int64_t>(kept_.size()));
    Call second = call;
    second.in.data = kept_.data();
    held_.in.data = call.in.data;
    FTUNE_RETURN_IF_ERROR(under_->Run(held_));
    return under_->Run(second);
  }

  std::unique_ptr<Transport> under_;
  LinkFault fault_;
  int message_ = 0;
  Call held_;
  std::vector<std::byte> kept_;
};

TEST_CASE("a stale activation or gradient, and two in each other's place, are seen") {
  using Kind = LinkFault::Kind;
  const OneRank one(TiedLlama());
  for (const ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::k1F1B, ScheduleKind::kZbH1}) {
    const MeshPoint point = {{.pipeline = 2}, 0, false, 3, {.kind = kind}};
    const auto compare = [&](const LinkFault& fault) {
      return one.Compare(point, [fault](std::unique_ptr<Transport> transport) {
        return std::make_unique<FaultyLinks>(std::move(transport), fault);
      });
    };
    const auto right = compare({});
    REQUIRE(right.ok());
    CHECK(right->ok());
    for (const Kind what : {Kind::kStale, Kind::kExchanged}) {
      for (const bool upwards : {true, false}) {
        for (const int message : {1, 4}) {  // of either step, in the middle
          const std::string name = StrCat(ToString(kind), what == Kind::kStale ? ", stale" : ", exchanged",
                                          upwards ? " activation " : " gradient ", message);
          const auto got = compare({what, upwards, message});
          REQUIRE_MESSAGE(got.ok(), name, ": ", std::string(got.status().message()));
          CHECK_MESSAGE(IsWrong(got), name);
        }
      }
    }
  }
}

// A W that is due while another microbatch waits for its own is made of what that one kept, once.
class ConfusedWork final : public StageWork {
 public:
  ConfusedWork(std::unique_ptr<StageWork> under, bool confused)
      : under_(std::move(under)), confused_(confused) {}

  int confusions() const { return confusions_; }

  bool Differentiated(const LocalStage& stage) const override { return under_->Differentiated(stage); }
  Tensor Forward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor x,
                 const ForwardOptions& options) override {
    return under_->Forward(stage, flight, context, std::move(x), options);
  }
  Tensor Backward(const LocalStage& stage, InFlight& flight, const Context& context, Tensor gradient,
                  const BackwardOptions& options) override {
    Tensor made = under_->Backward(stage, flight, context, std::move(gradient), options);
    if (!options.with_weights) waiting_.push_back({stage.stage, &flight});
    return made;
  }
  void BackwardWeight(const LocalStage& stage, InFlight& flight, const Context& context, bool last) override {
    std::erase_if(waiting_, [&](const auto& place) { return place.second == &flight; });
    for (const auto& [of, other] : waiting_) {
      if (!confused_ || confusions_ > 0 || of != stage.stage) continue;
      ++confusions_;
      flight = *other;
    }
    under_->BackwardWeight(stage, flight, context, last);
  }

 private:
  std::unique_ptr<StageWork> under_;
  bool confused_;
  int confusions_ = 0;
  std::vector<std::pair<int, InFlight*>> waiting_;
};

// Of one step of three microbatches on two ranks; how often a W was confused, on all of them.
NamedGradients StagedGradients(const TinyOptions& options, const std::vector<Batch>& microbatches,
                               int64_t trained, bool confused, int& confusions) {
  std::mutex mutex;
  std::map<std::string, std::vector<float>> all;
  confusions = 0;
  RunStagedStep<ConfusedWork>(
      options, 2, microbatches, 1.0f / static_cast<float>(trained),
      [&](Backend&, std::unique_ptr<StageWork> under) {
        return std::make_unique<ConfusedWork>(std::move(under), confused);
      },
      [&](const StagedRank<ConfusedWork>& rank) {
        rank.run();
        CHECK(rank.trainer.shards->FinishGradients().ok());
        const std::lock_guard lock(mutex);
        for (auto& [name, gradient] : rank.trainer.Gradients()) all[name] = std::move(gradient);
        confusions += rank.work.confusions();
      });
  return {all.begin(), all.end()};
}

TEST_CASE("a W of what another microbatch kept is seen") {
  TinyOptions options = ModelOf(kLlama);
  options.config.tied_head = false;
  std::vector<Batch> microbatches;
  int64_t trained = 0;
  for (int m = 0; m < 3; ++m) {
    microbatches.push_back(JoinedPacks(1, 4 * m, 4));
    trained += microbatches.back().trained_tokens;
  }
  const auto backend = MakeCpu();
  TinyTrainer one(*backend, options);
  one.Run(microbatches);
  NamedGradients want = one.Gradients();
  std::sort(want.begin(), want.end());
  options.schedule.kind = ScheduleKind::kZbH1;
  int confusions = 0;
  CHECK(WorstGradientError(StagedGradients(options, microbatches, trained, false, confusions), want) < 1e-5);
  CHECK(confusions == 0);
  CHECK(WorstGradientError(StagedGradients(options, microbatches, trained, true, confusions), want) > 1e-2);
  CHECK(confusions > 0);
}

}  // namespace
}  // namespace ftune::testing

TEST_SUITE_END();
