#include "cmd/train/run_results.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/run_options.h"
#include "cmd/save_result.h"
#include "cmd/train/resume_run.h"
#include "cmd/train/room_hint.h"
#include "engine/checkpoint/checkpoint_loader.h"
#include "engine/checkpoint/choose_checkpoint.h"
#include "engine/checkpoint/shared_reader.h"

namespace ftune {

std::filesystem::path RunResults::folder() const {
  return of_.model.lora ? of_.paths.adapter() : of_.paths.model();
}

int64_t RunResults::StepOf(const TrainerState& state) const {
  return keeps_best() && state.best_loss ? state.best_step : state.position.step;
}

absl::Status RunResults::Find() {
  constexpr int64_t kNone = -1;
  int64_t own = kNone;
  if (leads() && Exists(folder() / (of_.model.lora ? "adapter_config.json" : "config.json"))) {
    FTUNE_ASSIGN_OR_RETURN(const std::optional<int64_t> step, LastResultOf(of_.paths.log()));
    own = step.value_or(kNone);
  }
  FTUNE_ASSIGN_OR_RETURN(const int64_t step, of_.world.AllReduce(own, ReduceOp::kMax));
  if (step != kNone) step_ = step;
  return absl::OkStatus();
}

absl::Status RunResults::RemoveAfter(int64_t step) {
  if (!step_ || *step_ <= step) return absl::OkStatus();
  const int64_t later = *std::exchange(step_, std::nullopt);
  if (!leads()) return absl::OkStatus();
  FTUNE_RETURN_IF_ERROR(RemoveFolder(folder()));
  of_.progress.Say(StrCat("the result of step ", later,
                          " is of what came after, and is removed: ", shown_folder().string()));
  return absl::OkStatus();
}

absl::Status RunResults::Save(int64_t step) {
  const absl::StatusOr<std::filesystem::path> saved =
      SaveResult(of_.backend, of_.model, ToDType(*of_.recipe.precision.weights), of_.paths);
  if (!saved.ok()) return WithRoomHint(saved.status(), of_.paths.folder);
  step_ = step;
  if (log_ != nullptr) log_->Save(step, of_.paths.Shown(*saved));
  return absl::OkStatus();
}

absl::Status RunResults::SaveAtEnd(const TrainSummary& summary) {
  const int64_t step = StepOf(summary.state);
  if (step == summary.steps()) {
    return keeps_best() && step_ == step ? absl::OkStatus() : Save(step);
  }
  if (step_ == step) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const bool loaded, LoadStep(step));
  return Save(loaded ? step : summary.steps());
}

absl::StatusOr<bool> RunResults::LoadStep(int64_t step) {
  const CheckOptions check = {.threads = static_cast<int>(*of_.recipe.launch.threads)};
  const bool whole = leads() && ChooseCheckpoint(of_.paths.checkpoints(), step, check).ok();
  FTUNE_ASSIGN_OR_RETURN(const int64_t all, of_.world.AllReduce(int64_t{whole}, ReduceOp::kMax));
  if (all == 0) return false;
  FTUNE_ASSIGN_OR_RETURN(CheckpointReader reader,
                         OpenForAllRanks(of_.world, ResumePointOf(of_.paths, step).folder, *of_.model.model,
                                         of_.shards, of_.optimizer));
  FTUNE_RETURN_IF_ERROR(
      LoadCheckpoint(of_.backend, Stream(), reader, *of_.model.model, of_.shards, of_.optimizer));
  return true;
}

CommandResult RunResults::ResultOf(const TrainSummary& summary) const {
  const int exit = summary.stopped ? static_cast<int>(ExitCode::kPreempted) : 0;
  if (!leads()) return CommandResult{.exit = exit};
  const auto number = [](const std::optional<double>& x) { return x ? nlohmann::ordered_json(*x) : nullptr; };
  const std::filesystem::path left =
      of_.paths.Shown(summary.stopped ? of_.paths.checkpoints() / CheckpointName(summary.steps()) : folder());
  return CommandResult{.json = {{"run", of_.paths.shown.string()},
                                {"steps", summary.steps()},
                                {"loss", number(summary.state.loss)},
                                {"eval_loss", number(summary.state.eval_loss)},
                                {"exit", exit}},
                       .text = StrCat(left.string(), "\n"),
                       .exit = exit};
}

CommandResult RunResults::NothingLeft(const TrainerState& state, RunEnd end) {
  const TrainSummary summary = {.state = state, .early = end == RunEnd::kOutOfPatience};
  const TrainSection& train = of_.recipe.train;
  if (summary.early) {
    of_.progress.Say(StrCat("nothing is left to do: training stopped early after step ", summary.steps(),
                            ", as ", state.worse_in_a_row,
                            " evaluations in a row were no better; to go on, raise ",
                            "train.early_stopping_patience (", *train.early_stopping_patience, ")"));
  } else {
    const bool by_steps = train.max_steps == of_.data.steps().total;
    of_.progress.Say(StrCat("nothing is left to do: all ", summary.steps(),
                            " steps are done; to go on, raise ",
                            by_steps ? "train.max_steps" : "train.max_steps or train.num_epochs"));
  }
  of_.progress.Say(StrCat("done: ", shown_folder().string()));
  return ResultOf(summary);
}

absl::StatusOr<CommandResult> RunResults::Finish(const TrainSummary& summary, int signal) {
  CommandResult result = ResultOf(summary);
  if (!leads()) return result;
  log_->End(summary.steps(), result.json);
  FTUNE_RETURN_IF_ERROR(log_->status());
  SayEnd(summary, signal);
  return result;
}

void RunResults::SayBest(const TrainSummary& summary) {
  const int64_t best = summary.state.best_step;
  const std::string evaluated = absl::StrFormat(", eval loss %.4f", *summary.state.best_loss);
  of_.progress.Say(StrCat(summary.early     ? "no better evaluation: stopped early"
                          : summary.stopped ? "stopped"
                                            : "all steps done",
                          "; the result is that of step ", *step_,
                          *step_ == best ? evaluated
                                         : StrCat(": of the best evaluation, at step ", best, evaluated,
                                                  ", no weights are left")));
}

void RunResults::SayEnd(const TrainSummary& summary, int signal) {
  const int64_t total = of_.data.steps().total;
  if (StreamedData* stream = of_.data.stream()) {
    of_.progress.Say(StrCat("data: ", DescribeStream(stream->report())));
  }
  if (summary.data_ended) {
    of_.progress.Say(absl::StrFormat("the data ended after step %d of %d", summary.steps(), total));
  }
  if (keeps_best() && summary.state.best_loss && step_) SayBest(summary);
  if (!summary.stopped) {
    of_.progress.Say(StrCat("done: ", shown_folder().string()));
    return;
  }
  of_.progress.Say(
      absl::StrFormat("stopped by %s after step %d of %d\nto go on: ftune resume %s",
                      signal == 0 ? "checkpoint.stop_after" : StrCat("SIG", sigabbrev_np(signal)),
                      summary.steps(), total, of_.paths.shown.string()));
}

}  // namespace ftune
