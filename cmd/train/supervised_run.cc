#include "cmd/train/supervised_run.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/monotonic_clock.h"
#include "base/strings.h"
#include "cmd/prepared_data.h"
#include "cmd/recipe/key_table.h"
#include "cmd/recipe/source.h"
#include "cmd/report/hub_progress.h"
#include "cmd/report/run_log.h"
#include "cmd/report/screen.h"
#include "cmd/run_data.h"
#include "cmd/train/local_ranks.h"
#include "cmd/train/memory_check.h"
#include "cmd/train/rank_ends.h"
#include "cmd/train/rank_report.h"
#include "cmd/train/resume_run.h"
#include "cmd/train/train_checks.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "parallel/comm/shm_layout.h"
#include "parallel/launch/core_shares.h"
#include "parallel/launch/host_identity.h"

namespace ftune {
namespace {

constexpr absl::Duration kLongestWaitForHosts = absl::Seconds(30);

// Of files alone: what they hold is looked at when the run goes on.
std::optional<int64_t> LastWholeCheckpoint(const RunPaths& paths) {
  const absl::StatusOr<std::vector<CheckpointEntry>> checkpoints = ListCheckpoints(paths.checkpoints());
  if (!checkpoints.ok()) return std::nullopt;
  for (const CheckpointEntry& checkpoint : *checkpoints) {
    if (InspectCheckpoint(checkpoint.folder).ok()) return checkpoint.step;
  }
  return std::nullopt;
}

}  // namespace

SupervisedRun::SupervisedRun(const TrainOptions& options, const Invocation& invocation, LoadedRecipe loaded,
                             std::vector<HostSlots> hosts)
    : options_(options),
      json_(invocation.json),
      verbosity_(invocation.verbosity()),
      loaded_(std::move(loaded)),
      hosts_(std::move(hosts)),
      ranks_(ToMeshShape(loaded_.recipe.parallel).ranks()),
      paths_(*loaded_.recipe.output_dir),
      progress_(stderr, verbosity_),
      watch_(paths_, RunWatch::Leader::kLauncher),
      policy_(options_.verify ? 0 : loaded_.recipe.launch.max_restarts) {}

absl::StatusOr<CommandResult> SupervisedRun::Run() {
  if (!options_.verify) FTUNE_RETURN_IF_ERROR(watch_.Serve(loaded_, progress_));
  // A run begins when its ranks can, and its model is there; one that goes on may not need all of that.
  FTUNE_RETURN_IF_ERROR(FindPlace());
  absl::StatusOr<CommandResult> result = RunInFolder();
  watch_.End(result);
  return result;
}

absl::StatusOr<CommandResult> SupervisedRun::RunInFolder() {
  if (options_.resume) FTUNE_RETURN_IF_ERROR(TakeFolder());
  std::optional<ModelPlan> model_plan;
  if (run_hosts_ == nullptr || run_hosts_->first_is_here()) {
    absl::StatusOr<ModelPlan> found = FindModel();
    if (!found.ok()) return loaded_.Placed(found.status());
    model_plan = *std::move(found);
  }
  if (hosts_.empty() && !options_.resume && !options_.verify) {
    FTUNE_RETURN_IF_ERROR(CheckFitsHost(options_, loaded_, *model_plan, progress_));
  }
  if (!folder_) FTUNE_RETURN_IF_ERROR(TakeFolder());
  recipe_before_ = StateOf(paths_.recipe());
  if (model_plan) {
    const absl::Status prepared = PrepareData(*model_plan);
    if (!prepared.ok()) return loaded_.Placed(prepared);
  }
  return RunAttempts();
}

absl::Status SupervisedRun::FindPlace() {
  if (hosts_.empty()) {
    place_ = std::make_unique<LocalRanks>(ranks_, *recipe().launch.threads);
    return absl::OkStatus();
  }
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<RunHosts> hosts, RunHosts::Connect(loaded_, hosts_, progress_));
  run_hosts_ = hosts.get();
  if (options_.run.empty()) {
    FTUNE_ASSIGN_OR_RETURN(recipe_text_, ReadRecipeText(options_.recipe));
  }
  place_ = std::move(hosts);
  return run_hosts_->complete() ? absl::OkStatus() : FitToHosts();
}

absl::Status SupervisedRun::FitToHosts() {
  TrainOptions options = options_;
  options.hosts = run_hosts_->hosts();
  options.resume_if_begun |= options_.run.empty() && options_.resume.has_value();
  FTUNE_ASSIGN_OR_RETURN(OpenedRecipe opened, OpenForTraining(options, std::nullopt));
  loaded_ = std::move(opened.loaded);
  ranks_ = ToMeshShape(recipe().parallel).ranks();
  return absl::OkStatus();
}

absl::Status SupervisedRun::TakeFolder() {
  FTUNE_ASSIGN_OR_RETURN(RunFolder folder,
                         options_.resume
                             ? RunFolder::Continue(paths_.folder, options_.least_attempt)
                             : RunFolder::Create(paths_.folder, options_.force, options_.least_attempt));
  folder_.emplace(std::move(folder));
  attempt_ = folder_->attempt();
  if (run_hosts_ != nullptr) FTUNE_RETURN_IF_ERROR(run_hosts_->FindFolder(paths_));
  if (options_.resume) {
    if (run_hosts_ != nullptr) FTUNE_RETURN_IF_ERROR(run_hosts_->CollectFolder());
    FTUNE_ASSIGN_OR_RETURN(options_.resume, ChoosePoint(*folder_, loaded_, options_.step, progress_));
  }
  if (!options_.verify) watch_.Begin(attempt_, /*goes_on=*/options_.resume.has_value());
  return absl::OkStatus();
}

absl::StatusOr<ModelPlan> SupervisedRun::FindModel() {
  FTUNE_RETURN_IF_ERROR(CheckRanksCanRead(loaded_));
  if (hosts_.empty() && ranks_ > kShmMaxRanks) {
    return UsageError({.key = "parallel",
                       .found = StrCat(ranks_, " ranks"),
                       .expected = StrCat("at most ", kShmMaxRanks, " on one host")});
  }
  const int cores = static_cast<int>(AllowedCores().size());
  if (hosts_.empty() && ranks_ > cores) {
    progress_.Say(StrCat("warning: ", ranks_, " ranks share ", cores, cores == 1 ? " core" : " cores",
                         ", which is slower than as many ranks as cores"));
  }
  LoadedRecipe loaded = loaded_;  // the ranks find out by themselves what only the model can tell
  const std::optional<InitInCheckpoint> init = options_.resume ? options_.resume->init : std::nullopt;
  FTUNE_ASSIGN_OR_RETURN(ModelPlan model_plan,
                         ToModelPlan(loaded, HubProgress(verbosity_), ModelParts::kAll, init));
  FTUNE_RETURN_IF_ERROR(CheckKeepsSources(paths_, model_plan));
  FTUNE_RETURN_IF_ERROR(CheckModelSplits(recipe(), model_plan));
  return model_plan;
}

absl::Status SupervisedRun::PrepareData(const ModelPlan& model_plan) {
  // Without a folder for prepared data each rank prepares its own.
  if (PreparedFolder(recipe().data.prepared_path).empty()) return absl::OkStatus();
  LoadedRecipe loaded = loaded_;
  loaded.recipe.launch.threads = std::max<int64_t>(1, std::ssize(AllowedCores()));
  FTUNE_ASSIGN_OR_RETURN(const RunData data,
                         LoadRunData(loaded, model_plan, HubProgress(verbosity_), progress_));
  if (recipe().data.streaming) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const DataPlan plan, data.TrainPlan(loaded.recipe));
  return CheckAllRanksTrain(loaded, plan);
}

absl::StatusOr<CommandResult> SupervisedRun::RunAttempts() {
  std::error_code ignored;  // what cannot be removed cannot be written either
  if (!options_.resume) std::filesystem::remove_all(paths_.ranks(), ignored);
  // Before threads that would take them.
  signals_ = std::make_unique<TakenSignals>();
  while (true) {
    FTUNE_ASSIGN_OR_RETURN(Outcome outcome, RunAttempt());
    FTUNE_ASSIGN_OR_RETURN(const std::optional<int64_t> logged, LastStepOf(paths_.log()));
    const bool grows = Grows(outcome);
    const int64_t step =
        grows ? outcome.result->json.value("steps", int64_t{0}) : outcome.step.value_or(logged.value_or(0));
    std::string cause = "a host is back";
    if (!grows) {
      if (outcome.result.ok() || !outcome.may_pass) return std::move(outcome.result);
      const std::variant<absl::Duration, std::string> next = policy_.Next(step);
      if (const std::string* const why_not = std::get_if<std::string>(&next)) {
        if (recipe().launch.max_restarts > 0 && !options_.verify) {
          progress_.Say(StrCat("the run is not started again: ", *why_not));
        }
        return std::move(outcome.result);
      }
      cause =
          StrCat("restart ", policy_.restarts(), " of ", recipe().launch.max_restarts, ": ", outcome.cause);
      watch_.SetState(RunState::kRestarting);
      absl::Duration wait = std::get<absl::Duration>(next);
      if (run_hosts_ != nullptr) wait = std::max(wait, run_hosts_->UntilLostAreGone());
      if (!WaitToRestart(wait)) return StoppedBefore(cause);
    }
    const absl::Status prepared = PrepareRestart(cause, step);
    if (TakeSignal()) return StoppedBefore(cause);
    if (prepared.ok()) continue;
    if (grows) return prepared;
    progress_.Say(StrCat("the run cannot be started again: ", std::string(prepared.message())));
    return std::move(outcome.result);
  }
}

bool SupervisedRun::Grows(const Outcome& outcome) const {
  return run_hosts_ != nullptr && run_hosts_->grows() && place_->signal() == 0 && outcome.result.ok() &&
         outcome.result->exit == static_cast<int>(ExitCode::kPreempted);
}

bool SupervisedRun::TakeSignal() {
  while (const std::optional<int> came = signals_->Next()) {
    if (*came == SIGINT || *came == SIGTERM || *came == SIGHUP) signal_ = *came;
  }
  return signal_ != 0;
}

bool SupervisedRun::WaitToRestart(absl::Duration wait) {
  const absl::Duration until = MonotonicNow() + wait;
  while (!TakeSignal()) {
    const absl::Duration left = until - MonotonicNow();
    if (left <= absl::ZeroDuration()) return true;
    pollfd signal = {.fd = signals_->descriptor(), .events = POLLIN};
    poll(&signal, 1, static_cast<int>(absl::ToInt64Milliseconds(left) + 1));
  }
  return false;
}

CommandResult SupervisedRun::StoppedBefore(const std::string& what) {
  progress_.Say(StrCat("stopped before ", what));
  if (watch_.ends_now()) return Interrupted(SIGTERM);
  const std::optional<int64_t> step = HasBegun() ? LastWholeCheckpoint(paths_) : std::nullopt;
  if (!step) return Interrupted(signal_);
  constexpr int kSaved = static_cast<int>(ExitCode::kPreempted);
  return {.json = {{"run", paths_.folder.string()}, {"steps", *step}, {"exit", kSaved}},
          .text = StrCat(ResumePointOf(paths_, *step).folder.string(), "\n"),
          .exit = kSaved};
}

absl::Status SupervisedRun::FindHostsAgain() {
  // A host that has been switched off and on needs its time.
  const absl::Duration until = MonotonicNow() + absl::Seconds(recipe().launch.start_timeout);
  absl::Duration wait = absl::Seconds(1);
  while (true) {
    const absl::Status found = run_hosts_->Reconnect(progress_);
    if (found.ok()) {
      watch_.SetState(RunState::kRestarting);
      return run_hosts_->FindFolder(paths_);
    }
    if (MonotonicNow() + wait >= until || !MayPass(found)) return found;
    watch_.SetState(RunState::kWaitingForHosts);
    progress_.Say(StrCat("waiting for hosts: ", std::string(found.message())));
    if (!WaitToRestart(wait)) return found;
    wait = std::min(2 * wait, kLongestWaitForHosts);
  }
}

absl::Status SupervisedRun::PrepareRestart(const std::string& cause, int64_t failed_step) {
  watch_.SetState(RunState::kRestarting);
  if (run_hosts_ != nullptr) {
    FTUNE_RETURN_IF_ERROR(FindHostsAgain());
    if (HasBegun()) FTUNE_RETURN_IF_ERROR(run_hosts_->CollectFolder());
  }
  FTUNE_RETURN_IF_ERROR(folder_->BeginAttempt());
  attempt_ = folder_->attempt();
  progress_.Say(StrCat("attempt ", attempt_, ": ", cause));
  if (HasBegun()) {
    FTUNE_ASSIGN_OR_RETURN(options_.resume, ChoosePoint(*folder_, loaded_, std::nullopt, progress_));
  }
  if (run_hosts_ != nullptr) FTUNE_RETURN_IF_ERROR(FitToHosts());
  if (!options_.resume) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<RunLog> log, RunLog::Open(paths_.log(), attempt_));
  log->Restart(options_.resume->step, {{"failed_step", failed_step}, {"cause", cause}});
  return log->status();
}

bool SupervisedRun::HasBegun() const {
  return options_.resume || (HasRun(paths_) && StateOf(paths_.recipe()) != recipe_before_);
}

std::filesystem::path SupervisedRun::LogOf(int rank) const { return paths_.rank_log(attempt_, rank); }

std::vector<std::string> SupervisedRun::ArgumentsOfRanks() const {
  std::vector<std::string> arguments = {"ftune"};
  if (options_.run.empty()) {
    arguments.insert(arguments.end(), {"train", options_.recipe});
    if (options_.resume) arguments.push_back("--resume");
  } else {
    arguments.insert(arguments.end(), {"resume", options_.run});
  }
  arguments.insert(arguments.end(), options_.overrides.begin(), options_.overrides.end());
  // Their environment is as any launcher's.
  if (!loaded_.given->launch.kind) {
    const std::string kind = WriteFlow(*RecipeKeys().Find("launch.kind")->write(recipe()));
    arguments.push_back(StrCat("--derived=launch.kind=", kind));
  }
  arguments.push_back(StrCat("--attempt=", attempt_));
  if (options_.resume) arguments.push_back(StrCat("--resume-from=", options_.resume->step));
  if (options_.verify) {
    arguments.push_back(StrCat("--verify-reference=", options_.verify->reference.string()));
    arguments.push_back(StrCat("--verify-steps=", options_.verify->steps));
  }
  if (json_) arguments.push_back("--json");
  if (verbosity_ == Verbosity::kQuiet) arguments.push_back("--quiet");
  if (verbosity_ == Verbosity::kVerbose) arguments.push_back("--verbose");
  return arguments;
}

std::vector<std::string> SupervisedRun::PartsOfBatch() const {
  return {StrCat("parallel.data=", *recipe().parallel.data),
          StrCat("train.micro_batch_size=", *recipe().train.micro_batch_size),
          StrCat("train.gradient_accumulation_steps=", *recipe().train.gradient_accumulation_steps)};
}

AttemptOrder SupervisedRun::Order() const {
  AttemptOrder order = {.arguments = ArgumentsOfRanks(),
                        .threads_given = loaded_.places.contains("launch.threads"),
                        .goes_on = options_.resume.has_value(),
                        .folder = std::filesystem::current_path().string()};
  if (run_hosts_ != nullptr && !run_hosts_->complete()) {
    for (const std::string& part : PartsOfBatch()) order.arguments.push_back(StrCat("--derived=", part));
  }
  // Other hosts need not have the recipe's file.
  if (run_hosts_ != nullptr && !recipe_text_.empty()) {
    order.input = recipe_text_;
    order.arguments.push_back("--recipe-on-input");
  }
  for (int rank = 0; rank < place_->ranks(); ++rank) order.logs.push_back(LogOf(rank));
  order.supervisor.good.push_back(static_cast<int>(ExitCode::kPreempted));
  order.supervisor.stopped_timeout = absl::Seconds(recipe().launch.heartbeat_timeout);
  return order;
}

absl::StatusOr<SupervisedRun::Outcome> SupervisedRun::RunAttempt() {
  const AttemptOrder order = Order();
  Screen screen(STDERR_FILENO, StrCat("see ", LogOf(0).parent_path().string()));
  FTUNE_ASSIGN_OR_RETURN(RankOutput output,
                         RankOutput::Create(order.logs, screen, isatty(STDERR_FILENO) != 0));
  ShowRanks();
  RankWatch watch(order, *place_, verbosity_, output, watch_, WatchOptions());
  const absl::StatusOr<std::vector<RankEnd>> ends = place_->Run(order, *signals_, output, watch);
  watch_.EndRanks();
  output.TakeRest();
  if (watch_.ends_now()) return Outcome{.result = Interrupted(SIGTERM)};
  // Of hosts: one may be lost before its ranks run, or when they have ended.
  if (!ends.ok()) {
    if (run_hosts_ == nullptr) return ends.status();
    Outcome failed = FailedBy(ends.status());
    // Hosts that have never met will not meet another time.
    if (run_hosts_->apart() && !HasBegun()) failed.may_pass = false;
    return failed;
  }
  if (run_hosts_ != nullptr && recipe().launch.exclude_stragglers) {
    for (int rank = 0; rank < place_->ranks(); ++rank) {
      if (watch.IsSlow(rank)) run_hosts_->StandBack(rank);
    }
  }
  return OutcomeOf(*ends, output, watch);
}

RankWatch::Options SupervisedRun::WatchOptions() {
  const LaunchSection& launch = recipe().launch;
  const MeshShape shape = ToMeshShape(recipe().parallel);
  RankWatch::Options options = {
      .limits = {.in_steps = absl::Seconds(launch.hang_timeout.value_or(launch.step_timeout)),
                 .elsewhere = absl::Seconds(launch.start_timeout)},
      .on_straggler = [this](const Straggler& straggler) { OnStraggler(straggler); }};
  // The ranks of a pipeline's stage do the same work.
  for (int rank = 0; rank < place_->ranks(); ++rank) {
    options.work.push_back(shape.Coordinate(rank, MeshAxis::kPipeline));
  }
  return options;
}

void SupervisedRun::OnStraggler(const Straggler& straggler) {
  const absl::StatusOr<std::unique_ptr<RunLog>> log = RunLog::Join(paths_.log(), attempt_);
  if (!log.ok()) return;  // `ftune verify` keeps none
  const std::string host = place_->HostOf(straggler.rank);
  (*log)->Straggler(straggler.step, {{"rank", straggler.rank},
                                     {"host", host.empty() ? HostName() : host},
                                     {"factor", straggler.factor},
                                     {"compute_seconds", straggler.compute_seconds},
                                     {"median_seconds", straggler.median_seconds}});
}

SupervisedRun::Outcome SupervisedRun::FailedBy(const absl::Status& error, const Pulse& shown) const {
  return {.result = error,
          .may_pass = place_->signal() == 0 && MayPass(error),
          .cause = std::string(error.message()),
          .step = shown.step > 0 ? std::optional(shown.step - 1) : std::nullopt};
}

void SupervisedRun::ShowRanks() {
  const std::string here = HostName();
  std::vector<RankStatus> ranks;
  std::vector<HostStatus> hosts;
  for (int rank = 0; rank < place_->ranks(); ++rank) {
    const std::string host = place_->HostOf(rank);
    ranks.push_back({.rank = rank, .host = host.empty() ? here : host});
    if (hosts.empty() || hosts.back().name != ranks.back().host) hosts.push_back({.name = ranks.back().host});
    hosts.back().ranks.push_back(rank);
  }
  for (const HostSlots& slots : hosts_) {
    const bool used = std::any_of(hosts.begin(), hosts.end(),
                                  [&](const HostStatus& host) { return host.name == slots.name; });
    if (!used) hosts.push_back({.name = slots.name, .state = kHostMissing});
  }
  watch_.BeginAttempt(attempt_, std::move(hosts), std::move(ranks));
}

SupervisedRun::Outcome SupervisedRun::OutcomeOf(const std::vector<RankEnd>& ends, RankOutput& output,
                                                RankWatch& watch) {
  for (const RankEnd& end : ends) {
    if (EndedWell(end)) continue;
    const std::optional<absl::Status> error = ReportedError(end);
    output.File(end.rank, !end.lost.empty() ? StrCat("host ", end.host, " is lost: ", end.lost)
                          : error           ? std::string(error->message())
                                            : DescribeEnd(end.wait_status));
  }
  if (const std::optional<Standstill>& all = watch.standstill()) {
    const int shown = all->odd.value_or(0);
    return FailedBy(
        ErrorOfStandstill(all->still, all->odd, place_->HostOf(shown), watch.pulses(), LogOf(shown).string()),
        watch.pulses()[shown]);
  }
  if (const RankEnd* cause = FirstCause(ends)) {
    // A signal that came before the first step, or a second one, ends a rank at once: no fault of the rank.
    const int signal = place_->signal();
    if (signal != 0 && cause->lost.empty() && StatusOfShell(cause->wait_status) == 128 + signal) {
      return {.result = Interrupted(signal)};
    }
    return FailedBy(ErrorOf(*cause, output, watch), watch.pulses()[RankAtFault(*cause)]);
  }
  const auto first = std::find_if(ends.begin(), ends.end(), [](const RankEnd& end) { return end.rank == 0; });
  std::optional<absl::StatusOr<CommandResult>> report = DecodeReport(first->report);
  if (report) return {.result = *std::move(report)};
  return {.result = UserError(ExitCode::kRankFailed, {.key = "rank 0",
                                                      .message = "it ended without a word",
                                                      .hint = StrCat("its log is ", LogOf(0).string())})};
}

CommandResult SupervisedRun::Interrupted(int signal) const {
  return {.json = {{"run", paths_.folder.string()}, {"exit", 128 + signal}}, .exit = 128 + signal};
}

absl::Status SupervisedRun::ErrorOf(const RankEnd& end, RankOutput& output, RankWatch& watch) {
  const bool silent = !ReportedError(end) && !output.LastLines(end.rank).empty();
  if (silent && verbosity_ != Verbosity::kQuiet) {
    output.Show(StrCat("the last lines of rank ", end.rank, ":"));
    for (const std::string& line : output.LastLines(end.rank)) output.Show(StrCat("  ", line));
  }
  const int at_fault = RankAtFault(end);
  absl::Status error = ErrorOfEnd(end, watch.pulses()[at_fault], place_->HostOf(at_fault),
                                  LogOf(end.rank).string(), absl::Seconds(recipe().launch.heartbeat_timeout));
  if (!MayPass(error)) return error;
  std::vector<int> others;
  for (int rank = 0; rank < place_->ranks(); ++rank) {
    if (rank != at_fault) others.push_back(rank);
  }
  watch.SayWaits(others);
  return error;
}

}  // namespace ftune
