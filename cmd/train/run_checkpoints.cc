#include "cmd/train/run_checkpoints.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "base/timeline.h"
#include "cmd/train/room_hint.h"

namespace ftune {
namespace {

constexpr double kByTheClock = 15 * 60;  // seconds

}  // namespace

RunCheckpoints::Options RunCheckpoints::OptionsOf(const CheckpointSection& checkpoint, const RunLength& steps,
                                                  const RunPaths& paths) {
  Options options = {.every = checkpoint.save_steps,
                     .best = checkpoint.keep_best,
                     .skips = checkpoint.when_busy == WhenBusy::kSkip,
                     .paths = paths};
  if (checkpoint.saves_per_epoch && steps.epoch) {
    const double every = static_cast<double>(*steps.epoch) / *checkpoint.saves_per_epoch;
    options.every = std::max<int64_t>(1, std::llround(every));
  }
  return options;
}

std::string RunCheckpoints::WarnOfKeepEvery(const CheckpointSection& checkpoint, const RunLength& steps) {
  if (!checkpoint.keep_every) return "";
  const int64_t kept = *checkpoint.keep_every;
  const std::optional<int64_t> every = OptionsOf(checkpoint, steps, RunPaths("")).every;
  const std::string start = StrCat("warning: checkpoint.keep_every is ", kept);
  if (!every) {
    return StrCat(start, ", but checkpoints are saved by the clock, seldom at a multiple of that: set ",
                  "checkpoint.save_steps too");
  }
  const int64_t share = kept / std::gcd(kept, *every);  // of saves, the one that is also such a step
  if (share <= steps.total / *every) return "";
  return StrCat(start, ", but checkpoints are saved every ", *every, " steps, and none of the run's ",
                steps.total, " is a multiple of both: nothing is kept for it");
}

RunCheckpoints::RunCheckpoints(CheckpointSaver& saver, ModelShards& shards, Options options,
                               StopSignal& signals, RunLog* log, Progress& progress)
    : saver_(saver),
      shards_(shards),
      options_(std::move(options)),
      signals_(signals),
      log_(log),
      progress_(progress),
      last_(Timeline::Now()) {}

bool RunCheckpoints::AskedFor() {
  bool asked = signals_.TakeSave();
  if (leads() && Exists(options_.paths.save_request())) {
    std::error_code error;
    // What cannot be removed would ask again at each step.
    asked = std::filesystem::remove(options_.paths.save_request(), error) || asked;
  }
  return asked;
}

bool RunCheckpoints::Wanted(int64_t step) {
  Report().IgnoreError();
  asked_for_ = AskedFor() || asked_for_;
  if (asked_for_) return true;
  if (options_.every) return step % *options_.every == 0;
  return leads() && Timeline::Now() - last_ >= kByTheClock;
}

absl::Status RunCheckpoints::Save(const TrainerState& state) {
  FTUNE_RETURN_IF_ERROR(Begin(state));
  Report().IgnoreError();
  return absl::OkStatus();
}

absl::Status RunCheckpoints::Begin(const TrainerState& state) {
  // What was asked for until now is had with this one: the ranks do not hear of a signal at the same step.
  const bool heard = AskedFor();
  const bool asked_for = std::exchange(asked_for_, false) || heard;
  last_ = Timeline::Now();
  if (options_.skips) {
    enum : int64_t { kFree, kBusy, kAskedFor };
    const int64_t all = shards_.AgreeOn(asked_for ? kAskedFor : saver_.busy() ? kBusy : kFree);
    if (all == kBusy) {
      progress_.Say(
          absl::StrFormat("the checkpoint of step %d is left out: the one before is still being "
                          "written",
                          state.position.step));
      return absl::OkStatus();
    }
  }
  return saver_.Save(state);
}

absl::Status RunCheckpoints::SaveLast(const TrainerState& state) {
  ended_ = true;
  saver_.Wait();
  Report().IgnoreError();  // of an earlier state
  if (saved_ == state.position.step) return absl::OkStatus();
  FTUNE_RETURN_IF_ERROR(Begin(state));
  saver_.Wait();
  return WithRoomHint(Report(), options_.paths.folder);
}

absl::Status RunCheckpoints::Report() {
  absl::Status first;
  for (SaveReport& report : saver_.TakeReports()) {
    report.folder = options_.paths.Shown(report.folder);
    if (log_ != nullptr) log_->Checkpoint(report);
    if (report.status.ok()) {
      saved_ = report.step;
      failing_ = false;
      progress_.Say(absl::StrFormat("saved %s (%.1f MiB in %.2f s, training stood still for %.2f s)",
                                    report.folder.string(), static_cast<double>(report.bytes) / (1 << 20),
                                    report.seconds, report.stall_seconds));
      continue;
    }
    first.Update(report.status);
    // The next ones fail for the same reason, most often.
    if (!std::exchange(failing_, true)) {
      const bool tries_again = !ended_ && !saver_.broken();
      progress_.Say(StrCat("warning: the checkpoint of step ", report.step, " could not be written",
                           tries_again ? "; training goes on, and tries again at each save: " : ": ",
                           std::string(report.status.message())));
    }
  }
  return first;
}

}  // namespace ftune
