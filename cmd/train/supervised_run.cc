#include "cmd/train/supervised_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/prepared_data.h"
#include "cmd/report/hub_progress.h"
#include "cmd/report/screen.h"
#include "cmd/run_data.h"
#include "cmd/run_options.h"
#include "cmd/train/rank_report.h"
#include "cmd/train/resume_run.h"
#include "cmd/train/train_checks.h"
#include "parallel/comm/shm_layout.h"
#include "parallel/launch/core_shares.h"
#include "parallel/launch/join_world.h"
#include "parallel/launch/random_token.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/tcp_store_server.h"

namespace ftune {
namespace {

constexpr char kLoopback[] = "127.0.0.1";

bool IsGood(int wait_status) {
  constexpr int kPreempted = static_cast<int>(ExitCode::kPreempted);
  return WIFEXITED(wait_status) && (WEXITSTATUS(wait_status) == 0 || WEXITSTATUS(wait_status) == kPreempted);
}

// As a shell has it.
int StatusOfShell(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// Whether the error says that another rank is to blame: then it is no first cause.
bool BlamesAnother(const absl::Status& status, int rank) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  const int exit = ExitCodeOf(status);
  const bool of_ranks =
      exit == static_cast<int>(ExitCode::kRankFailed) || exit == static_cast<int>(ExitCode::kTimeout);
  return detail && of_ranks && detail->key.starts_with("rank ") && detail->key != StrCat("rank ", rank);
}

// What a rank said of its failure, if it came to that.
std::optional<absl::Status> ReportedError(const RankEnd& end) {
  const std::optional<absl::StatusOr<CommandResult>> report = DecodeReport(end.report);
  if (!report || report->ok()) return std::nullopt;
  return report->status();
}

// The first that failed by itself; where each blames another one (which was stopped, say), the first to say
// so.
const RankEnd* FirstCause(const std::vector<RankEnd>& ends) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends) {
    if (IsGood(end.wait_status) || end.was_told) continue;
    const std::optional<absl::Status> error = ReportedError(end);
    if (!error || !BlamesAnother(*error, end.rank)) return &end;
    if (first == nullptr) first = &end;
  }
  return first;
}

// What becomes of the ranks while they run, for the screen and the files.
class Watch final : public SupervisorObserver {
 public:
  // `logs` are the ranks'.
  Watch(std::vector<std::filesystem::path> logs, Verbosity verbosity, RankOutput& output,
        const TcpStoreServer& store, std::string prefix)
      : logs_(std::move(logs)),
        verbosity_(verbosity),
        output_(output),
        store_(store),
        prefix_(std::move(prefix)) {}

  void OnTick() override { output_.Take(); }
  void OnStopped(int rank, pid_t pid) override { Say(rank, pid, "is stopped"); }
  void OnContinued(int rank, pid_t pid) override { Say(rank, pid, "goes on"); }
  bool HaveMet() override {
    while (met_ < ranks() && store_.Has(StrCat(prefix_, JoinedKey(met_)))) ++met_;
    return met_ == ranks();
  }

 private:
  void Say(int rank, pid_t pid, std::string_view what) {
    const std::string text = StrCat("rank ", rank, " (pid ", pid, ") ", what);
    output_.File(rank, text);
    if (verbosity_ != Verbosity::kQuiet) output_.Show(StrCat(text, "; its log is ", logs_[rank].string()));
  }

  int ranks() const { return static_cast<int>(logs_.size()); }

  std::vector<std::filesystem::path> logs_;
  Verbosity verbosity_;
  RankOutput& output_;
  const TcpStoreServer& store_;
  std::string prefix_;
  int met_ = 0;  // the first so many ranks
};

}  // namespace

SupervisedRun::SupervisedRun(const TrainOptions& options, const Invocation& invocation, LoadedRecipe loaded)
    : options_(options),
      json_(invocation.json),
      verbosity_(invocation.verbosity()),
      loaded_(std::move(loaded)),
      ranks_(ToMeshShape(loaded_.recipe.parallel).ranks()),
      paths_(*loaded_.recipe.output_dir),
      progress_(stderr, verbosity_) {}

absl::StatusOr<CommandResult> SupervisedRun::Run() {
  // A run begins when its model is there.
  const absl::StatusOr<ModelPlan> model_plan = FindModel();
  if (!model_plan.ok()) return loaded_.Placed(model_plan.status());
  FTUNE_ASSIGN_OR_RETURN(const RunFolder folder, TakeFolder());
  attempt_ = folder.attempt();
  const absl::Status prepared = PrepareData(*model_plan);
  if (!prepared.ok()) return loaded_.Placed(prepared);
  return RunRanks();
}

absl::StatusOr<RunFolder> SupervisedRun::TakeFolder() {
  if (!options_.resume) return RunFolder::Create(paths_.folder, options_.force, options_.least_attempt);
  FTUNE_ASSIGN_OR_RETURN(TakenRun taken, TakeRun(loaded_, options_, progress_));
  options_.resume = std::move(taken.point);
  return std::move(taken.folder);
}

absl::StatusOr<ModelPlan> SupervisedRun::FindModel() {
  FTUNE_RETURN_IF_ERROR(CheckRanksCanRead(loaded_));
  if (ranks_ > kShmMaxRanks) {
    return UsageError({.key = "parallel",
                       .found = StrCat(ranks_, " ranks"),
                       .expected = StrCat("at most ", kShmMaxRanks, " on one host")});
  }
  const int cores = static_cast<int>(AllowedCores().size());
  if (ranks_ > cores) {
    progress_.Say(StrCat("warning: ", ranks_, " ranks share ", cores, cores == 1 ? " core" : " cores",
                         ", which is slower than as many ranks as cores"));
  }
  LoadedRecipe loaded = loaded_;  // the ranks find out by themselves what only the model can tell
  FTUNE_ASSIGN_OR_RETURN(ModelPlan model_plan, ToModelPlan(loaded, HubProgress(verbosity_)));
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

std::filesystem::path SupervisedRun::LogOf(int rank) const { return paths_.rank_log(attempt_, rank); }

std::vector<std::string> SupervisedRun::CommandOfRank() const {
  std::vector<std::string> arguments = {"ftune"};
  if (options_.run.empty()) {
    arguments.insert(arguments.end(), {"train", options_.recipe});
    if (options_.resume) arguments.push_back("--resume");
  } else {
    arguments.insert(arguments.end(), {"resume", options_.run});
  }
  arguments.insert(arguments.end(), options_.overrides.begin(), options_.overrides.end());
  // Their environment is as any launcher's, and their cores are a share of those that there are.
  for (const std::string& text :
       {std::string("launch.kind=local"), StrCat("launch.threads=", *recipe().launch.threads)}) {
    const bool given = loaded_.places.contains(text.substr(0, text.find('=')));
    arguments.push_back(given ? text : StrCat("--derived=", text));
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

std::vector<RankCommand> SupervisedRun::Commands(int port, const std::string& prefix) const {
  const std::vector<std::vector<int>> cores = ShareCores(AllowedCores(), ranks_);
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::vector<RankCommand> commands;
  for (int rank = 0; rank < ranks_; ++rank) {
    RankCommand command{
        .arguments = CommandOfRank(),
        .environment = {StrCat("RANK=", rank), StrCat("LOCAL_RANK=", rank), StrCat("WORLD_SIZE=", ranks_),
                        StrCat("LOCAL_WORLD_SIZE=", ranks_), StrCat("MASTER_ADDR=", kLoopback),
                        StrCat("MASTER_PORT=", port), "TORCHELASTIC_USE_AGENT_STORE=1",
                        StrCat(kStorePrefixVariable, "=", prefix),
                        StrCat(kSupervisedVariable, "=", terminal ? kSupervisedOnTerminal : "1")},
        .cores = cores[rank],
        .output = LogOf(rank)};
    commands.push_back(std::move(command));
  }
  return commands;
}

absl::StatusOr<CommandResult> SupervisedRun::RunRanks() {
  std::vector<std::filesystem::path> files;
  for (int rank = 0; rank < ranks_; ++rank) files.push_back(LogOf(rank));
  std::error_code ignored;  // what cannot be removed cannot be written either
  if (!options_.resume) std::filesystem::remove_all(paths_.ranks(), ignored);
  Screen screen(STDERR_FILENO, StrCat("see ", LogOf(0).parent_path().string()));
  FTUNE_ASSIGN_OR_RETURN(RankOutput output, RankOutput::Create(files, screen, isatty(STDERR_FILENO) != 0));
  const std::string prefix = StrCat(RandomToken(), "/");
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<TcpStoreServer> store,
                         TcpStoreServer::Start(kLoopback, 0, prefix));
  Watch watch(files, verbosity_, output, *store, prefix);
  SupervisorOptions options;
  options.good.push_back(static_cast<int>(ExitCode::kPreempted));
  options.stopped_timeout = absl::Seconds(recipe().launch.heartbeat_timeout);
  Supervisor supervisor(options, watch);
  FTUNE_ASSIGN_OR_RETURN(const std::vector<RankEnd> ends, supervisor.Run(Commands(store->port(), prefix)));
  output.TakeRest();
  return ResultOf(ends, supervisor, output);
}

absl::StatusOr<CommandResult> SupervisedRun::ResultOf(const std::vector<RankEnd>& ends,
                                                      const Supervisor& supervisor, RankOutput& output) {
  for (const RankEnd& end : ends) {
    if (IsGood(end.wait_status)) continue;
    const std::optional<absl::Status> error = ReportedError(end);
    output.File(end.rank, error ? std::string(error->message()) : DescribeEnd(end.wait_status));
  }
  if (const RankEnd* cause = FirstCause(ends)) {
    // A signal that came before the first step, or a second one, ends a rank at once: no fault of the rank.
    const int by_signal = 128 + supervisor.signal();
    if (supervisor.signal() != 0 && StatusOfShell(cause->wait_status) == by_signal) {
      return CommandResult{.json = {{"run", paths_.folder.string()}, {"exit", by_signal}}, .exit = by_signal};
    }
    return ErrorOf(*cause, output);
  }
  const auto first = std::find_if(ends.begin(), ends.end(), [](const RankEnd& end) { return end.rank == 0; });
  const std::optional<absl::StatusOr<CommandResult>> report = DecodeReport(first->report);
  if (report) return *report;
  return UserError(ExitCode::kRankFailed, {.key = "rank 0",
                                           .message = "it ended without a word",
                                           .hint = StrCat("its log is ", LogOf(0).string())});
}

absl::Status SupervisedRun::ErrorOf(const RankEnd& end, RankOutput& output) {
  if (const std::optional<absl::Status> error = ReportedError(end)) return *error;
  if (verbosity_ != Verbosity::kQuiet && !output.LastLines(end.rank).empty()) {
    output.Show(StrCat("the last lines of rank ", end.rank, ":"));
    for (const std::string& line : output.LastLines(end.rank)) output.Show(StrCat("  ", line));
  }
  ErrorDetail detail = {.key = StrCat("rank ", end.rank)};
  const std::string log = StrCat("; its log is ", LogOf(end.rank).string());
  if (end.stood_still) {
    const absl::Duration timeout = absl::Seconds(recipe().launch.heartbeat_timeout);
    detail.message = StrCat("it has been stopped for ", absl::FormatDuration(timeout), ", before all ranks ",
                            "had met", log);
    detail.hint = StrCat("something sent SIGSTOP to its process, which was ", end.pid);
  } else {
    const bool killed = WIFSIGNALED(end.wait_status) && WTERMSIG(end.wait_status) == SIGKILL;
    detail.message = StrCat("it ", DescribeEnd(end.wait_status), log);
    if (killed) detail.hint = "the system does so where memory runs out: `dmesg` would say it";
  }
  return UserError(ExitCode::kRankFailed, detail);
}

}  // namespace ftune
