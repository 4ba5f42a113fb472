#include "cmd/train/run_hosts.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <functional>
#include <limits>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hub/repo.h"
#include "base/monotonic_clock.h"
#include "base/strings.h"
#include "cmd/train/rank_ends.h"
#include "cmd/train/run_mirror.h"
#include "parallel/launch/agent_command.h"
#include "parallel/launch/join_world.h"
#include "parallel/launch/random_token.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kLoopback[] = "127.0.0.1";
constexpr int64_t kAllHosts = std::numeric_limits<int64_t>::max();
constexpr absl::Duration kLook = absl::Seconds(10);  // between looks whether a missing host is back

// Variables of the launcher that ranks on other hosts have too: those by which a user tells libraries
// something.
constexpr std::array<std::string_view, 9> kForwarded = {
    "FTUNE_", "HF_",  "HUGGING_FACE_",    "NCCL_",          "GLOO_",
    "UCX_",   "OMP_", "LD_LIBRARY_PATH=", "XDG_CACHE_HOME="};

std::vector<std::string> ForwardedEnvironment() {
  std::vector<std::string> forwarded;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool wanted = std::any_of(kForwarded.begin(), kForwarded.end(),
                                    [&](std::string_view start) { return text.starts_with(start); });
    if (wanted) forwarded.emplace_back(text);
  }
  return forwarded;
}

// One error that names them all, of which there are some.
absl::Status Together(const std::vector<absl::Status>& errors) {
  if (errors.size() == 1) return errors.front();
  std::string others;
  for (size_t i = 1; i < errors.size(); ++i) {
    const std::optional<ErrorDetail> detail = DetailOf(errors[i]);
    StrAppend(others, others.empty() ? "" : "; ",
              detail ? StrCat(detail->key, ": ", detail->message) : std::string(errors[i].message()));
  }
  ErrorDetail first =
      DetailOf(errors.front()).value_or(ErrorDetail{.message = std::string(errors.front().message())});
  StrAppend(first.message, "; and ", others);
  return UserError(static_cast<ExitCode>(ExitCodeOf(errors.front())), std::move(first));
}

// Files and folders on this host's disk that the recipe names, and which every host needs.
std::vector<std::string> NamedPaths(const Recipe& recipe) {
  std::vector<std::string> paths;
  const auto add = [&](const std::string& path) {
    const bool pattern = path.find_first_of("*?[") != std::string::npos;
    if (!path.empty() && path != "-" && !pattern)
      paths.push_back(fs::absolute(path).lexically_normal().string());
  };
  if (!ParseHubPath(recipe.model.path, RepoKind::kModel)) add(recipe.model.path);
  for (const std::vector<DataSource>* sources : {&recipe.data.train, &recipe.data.eval}) {
    for (const DataSource& source : *sources) {
      if (!ParseHubPath(source.path, RepoKind::kDataset)) add(source.path);
    }
  }
  return paths;
}

std::vector<std::string> NamesOf(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> names;
  for (const HostSlots& host : hosts) names.push_back(host.name);
  return names;
}

// What the agents tell goes to whoever watches the run; output to the ranks' files.
class Watch final : public AgentsObserver {
 public:
  Watch(RankOutput& output, RankObserver& observer, std::function<void()> on_tick)
      : output_(output), observer_(observer), on_tick_(std::move(on_tick)) {}

  void OnTick() override {
    output_.Take();
    observer_.OnTick();
    on_tick_();
  }
  void OnStarted(int rank, pid_t pid) override {
    RankProcess process;
    process.pid = pid;
    observer_.OnStarted(rank, process);
  }
  void OnOutput(int rank, std::string_view bytes) override { output_.Append(rank, bytes); }
  void OnStopped(int rank, pid_t pid) override { observer_.OnStopped(rank, pid); }
  void OnContinued(int rank, pid_t pid) override { observer_.OnContinued(rank, pid); }
  void OnPulse(int rank, const Pulse& pulse) override {
    if (pulse.step_seconds > 0) trained_.insert(rank);
    observer_.OnPulse(rank, pulse);
  }
  void OnLost(const std::string& host, const std::string& why) override { observer_.OnLost(host, why); }
  void OnStranger(const std::string& address) override { observer_.OnStranger(address); }

  // How many ranks have trained a whole step.
  int trained() const { return static_cast<int>(trained_.size()); }

 private:
  RankOutput& output_;
  RankObserver& observer_;
  std::function<void()> on_tick_;
  std::set<int> trained_;
};

}  // namespace

RunHosts::RunHosts(const LoadedRecipe& loaded, std::vector<HostSlots> slots)
    : loaded_(loaded), slots_(std::move(slots)), agents_(NamesOf(slots_), loaded.recipe.launch) {
  for (HostSlots& host : slots_) {
    if (host.slots == 0) host.slots = static_cast<int>(*loaded_.recipe.launch.ranks_per_host);
  }
}

std::vector<int> RunHosts::missing() const {
  std::vector<int> hosts;
  for (const int host : agents_.all()) {
    if (!agents_->connected(host) && !unusable_.contains(host)) hosts.push_back(host);
  }
  return hosts;
}

absl::StatusOr<std::unique_ptr<RunHosts>> RunHosts::Connect(const LoadedRecipe& loaded,
                                                            std::vector<HostSlots> slots,
                                                            Progress& progress) {
  const int64_t least = loaded.recipe.launch.min_hosts.value_or(1);
  if (least > std::ssize(slots)) {
    ErrorDetail error = loaded.At("launch.min_hosts");
    error.message = "there are not so many hosts";
    error.found = StrCat(least);
    error.expected = StrCat("at most ", slots.size());
    error.hint = "lower it, or name more hosts";
    return UsageError(std::move(error));
  }
  std::stable_partition(slots.begin(), slots.end(),
                        [](const HostSlots& host) { return IsThisHost(host.name); });
  std::unique_ptr<RunHosts> hosts(new RunHosts(loaded, std::move(slots)));
  FTUNE_RETURN_IF_ERROR(hosts->Choose(hosts->ConnectAll(), progress));
  return hosts;
}

std::map<int, absl::Status> RunHosts::ConnectAll() {
  std::map<int, absl::Status> wrong = agents_.Connect();
  CheckPaths(wrong);
  return wrong;
}

void RunHosts::CheckPaths(std::map<int, absl::Status>& wrong) {
  std::vector<int> hosts;
  for (const int host : agents_.all()) {
    if (!wrong.contains(host)) hosts.push_back(host);
  }
  const std::vector<absl::StatusOr<Json>> answers = agents_->Ask(
      hosts, agent::kCheck, {{"paths", NamedPaths(loaded_.recipe)}, {"folder", fs::current_path().string()}});
  for (size_t i = 0; i < hosts.size(); ++i) {
    const absl::StatusOr<Json>& answer = answers[i];
    if (!answer.ok()) {
      wrong[hosts[i]] = answer.status();
      continue;
    }
    std::vector<std::string> paths;
    for (const Json& path : answer->value("missing", Json::array())) paths.push_back(path.get<std::string>());
    if (paths.empty()) continue;
    wrong[hosts[i]] =
        UserError(ExitCode::kData, {.key = StrCat("host ", agents_->name(hosts[i])),
                                    .message = StrCat("it does not have ", StrJoin(paths, ", ")),
                                    .hint = "have model and data at the same place on all hosts, "
                                            "or name a model of the hub"});
  }
}

void RunHosts::LeaveOutSlow(int64_t needed, std::vector<int>& usable, Progress& progress) {
  for (const int host : slow_) {
    const auto place = std::find(usable.begin(), usable.end(), host);
    if (place == usable.end()) continue;
    if (agents_.is_here(host) || std::ssize(usable) <= needed) {
      progress.Say(
          StrCat("host ", agents_->name(host), " is slow, but ",
                 agents_.is_here(host) ? "the run's folder is there" : "without it too few are left"));
      continue;
    }
    progress.Say(StrCat("host ", agents_->name(host), " is slow, and the run does without it"));
    usable.erase(place);
    unusable_.insert(host);
    agents_->Disconnect(host);
  }
}

absl::Status RunHosts::Choose(const std::map<int, absl::Status>& wrong, Progress& progress) {
  const LaunchSection& launch = loaded_.recipe.launch;
  std::vector<int> usable;
  std::vector<absl::Status> errors;
  for (const int host : agents_.all()) {
    const auto why = wrong.find(host);
    if (why == wrong.end()) {
      usable.push_back(host);
      unusable_.erase(host);
    } else {
      errors.push_back(why->second);
      // What is wrong with a host that answers does not pass by itself.
      if (agents_->connected(host)) unusable_.insert(host);
      agents_->Disconnect(host);
    }
  }
  const int64_t needed =
      launch.min_hosts.value_or(std::min(std::ssize(slots_), launch.max_hosts.value_or(kAllHosts)));
  if (std::ssize(usable) < needed || usable.empty()) return Together(errors);
  for (const absl::Status& why : errors) {
    progress.Say(StrCat("warning: the run does without a host: ", std::string(why.message())));
  }
  LeaveOutSlow(needed, usable, progress);
  const int64_t most = launch.max_hosts.value_or(kAllHosts);
  if (std::ssize(usable) > most) usable.resize(most);
  chosen_ = std::move(usable);
  host_of_rank_.clear();
  for (const int host : chosen_) host_of_rank_.insert(host_of_rank_.end(), slots_[host].slots, host);
  WarnOfClocks(progress);
  return absl::OkStatus();
}

std::vector<HostSlots> RunHosts::hosts() const {
  std::vector<HostSlots> hosts;
  for (const int host : chosen_) hosts.push_back(slots_[host]);
  return hosts;
}

void RunHosts::WarnOfClocks(Progress& progress) const {
  for (const int host : chosen_) {
    const std::optional<std::string> wrong = agents_.WrongClock(host);
    if (wrong) progress.Say(StrCat("warning: ", *wrong, ": times in logs will not agree"));
  }
}

void RunHosts::LookForMissing() {
  // A node that a job has lost does not come back to it.
  if (loaded_.recipe.launch.kind == LaunchKind::kSlurm) return;
  const bool full = std::ssize(chosen_) >= loaded_.recipe.launch.max_hosts.value_or(kAllHosts);
  if (grows_ || full) return;
  if (probe_) {
    if (!probe_->Done()) return;
    grows_ = agents_.WouldDo(*probe_);
    probe_.reset();
    if (grows_) agents_->Pass(SIGTERM);  // they save, and the run goes on with more
    return;
  }
  const std::vector<int> gone = missing();
  const absl::Duration now = MonotonicNow();
  if (gone.empty() || now - last_look_ < kLook) return;
  last_look_ = now;
  // One after another.
  const auto next = std::upper_bound(gone.begin(), gone.end(), looked_at_);
  looked_at_ = next == gone.end() ? gone.front() : *next;
  absl::StatusOr<AgentProbe> probe = agents_.Probe(looked_at_);
  if (probe.ok()) probe_.emplace(*std::move(probe));
}

absl::Status RunHosts::FindFolder(const RunPaths& paths) {
  mirrored_.reset();
  if (first_is_here()) return absl::OkStatus();
  const fs::path probe = paths.folder / StrCat(".probe-", RandomToken());
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(probe, ""));
  const absl::StatusOr<Json> answer =
      agents_
          ->Ask({chosen_.front()}, agent::kCheck,
                {{"paths", Json::array()}, {"folder", ""}, {"probe", fs::absolute(probe).string()}})
          .front();
  std::error_code ignored;
  fs::remove(probe, ignored);
  FTUNE_RETURN_IF_ERROR(answer.status());
  if (!answer->value("sees_probe", false)) mirrored_ = paths;
  return absl::OkStatus();
}

absl::Status RunHosts::CollectFolder() {
  return mirrored_ ? RunMirror(*agents_, chosen_.front(), *mirrored_).Collect() : absl::OkStatus();
}

absl::Status RunHosts::Reconnect(Progress& progress) {
  const std::map<int, absl::Status> wrong = ConnectAll();
  // What seemed to be back, and was not, does not have the ranks end once more.
  if (std::exchange(grows_, false) && wrong.contains(looked_at_)) unusable_.insert(looked_at_);
  probe_.reset();
  return Choose(wrong, progress);
}

absl::StatusOr<std::map<int, RankCoordinates>> RunHosts::OfferStore(const std::string& prefix) {
  apart_ = false;
  const bool alone = chosen_.size() == 1;
  const bool tls = loaded_.recipe.launch.tls && !alone;
  const absl::StatusOr<Json> served =
      agents_
          ->Ask({chosen_.front()}, agent::kServe,
                {{"address", alone ? kLoopback : ""}, {"prefix", prefix}, {"ranks", ranks()}, {"tls", tls}})
          .front();
  FTUNE_RETURN_IF_ERROR(served.status());
  const int port = served->value("port", 0);
  RankCoordinates at = {.ranks = ranks(), .address = kLoopback, .port = port, .prefix = prefix};
  if (alone) return std::map<int, RankCoordinates>{{chosen_.front(), at}};
  absl::Status why;
  for (const std::string& address : agents_.AddressesOf(chosen_.front(), chosen_)) {
    const std::vector<absl::StatusOr<Json>> answers =
        agents_->Ask(chosen_, agent::kReach,
                     {{"address", address},
                      {"port", port},
                      {"prefix", prefix},
                      {"fingerprint", served->value("fingerprint", std::string())}});
    const auto failed =
        std::find_if(answers.begin(), answers.end(), [](const auto& answer) { return !answer.ok(); });
    if (failed == answers.end()) {
      std::map<int, RankCoordinates> of_hosts;
      for (size_t i = 0; i < chosen_.size(); ++i) {
        at.address = tls ? kLoopback : address;
        at.port = (*answers[i]).value("port", 0);
        if (tls) at.host_address = (*answers[i]).value("own_address", std::string());
        of_hosts[chosen_[i]] = at;
      }
      return of_hosts;
    }
    const int host = chosen_[failed - answers.begin()];
    why.Update(HostError(agents_->name(host),
                         StrCat("it cannot reach host ", agents_->name(chosen_.front()), " at ", address,
                                ", port ", port, ": ", std::string(failed->status().message())),
                         "let the hosts of a run reach each other on all ports"));
  }
  apart_ = std::all_of(chosen_.begin(), chosen_.end(), [&](int host) { return agents_->connected(host); });
  return why;
}

HostRanks RunHosts::RanksOn(int host, const AttemptOrder& order, RankCoordinates at,
                            const std::string& mirror) const {
  const bool mirrors = host == chosen_.front() && !mirror.empty();
  HostRanks ranks = {.host = host, .mirrors = mirrors};
  at.local_ranks = slots_[host].slots;
  const int64_t threads = order.threads_given
                              ? *loaded_.recipe.launch.threads
                              : std::max<int64_t>(1, agents_->facts(host).cores / at.local_ranks);
  const std::vector<std::string> forwarded =
      agents_.is_here(host) ? std::vector<std::string>() : ForwardedEnvironment();
  const int first =
      static_cast<int>(std::find(host_of_rank_.begin(), host_of_rank_.end(), host) - host_of_rank_.begin());
  for (at.local_rank = 0; at.local_rank < at.local_ranks; ++at.local_rank) {
    at.rank = first + at.local_rank;
    ranks.ranks.push_back(at.rank);
    std::vector<std::string> arguments = ArgumentsOf(order, threads);
    if (host != chosen_.front() && order.goes_on) arguments.push_back("--recipe-of-first");
    if (mirrors) arguments.push_back(StrCat("--run-folder=", mirror));
    ranks.arguments.push_back(std::move(arguments));
    std::vector<std::string> environment = EnvironmentOf(at);
    environment.insert(environment.end(), forwarded.begin(), forwarded.end());
    ranks.environments.push_back(std::move(environment));
  }
  return ranks;
}

absl::StatusOr<std::vector<RankEnd>> RunHosts::Run(const AttemptOrder& order, TakenSignals& signals,
                                                   RankOutput& output, RankObserver& observer) {
  const std::string prefix = StrCat(RandomToken(), "/");
  FTUNE_ASSIGN_OR_RETURN(const auto stores, OfferStore(prefix));
  std::optional<RunMirror> mirror;
  if (mirrored_) {
    mirror.emplace(*agents_, chosen_.front(), *mirrored_);
    FTUNE_RETURN_IF_ERROR(mirror->Prepare(order.goes_on));
  }
  std::vector<HostRanks> ranks;
  for (const int host : chosen_) {
    ranks.push_back(RanksOn(host, order, stores.at(host), mirror ? mirror->folder() : ""));
  }
  Watch watch(output, observer, [&] {
    if (watch.trained() == this->ranks()) LookForMissing();
    if (mirror) mirror->OnTick(output);
  });
  FTUNE_ASSIGN_OR_RETURN(std::vector<RankEnd> ends,
                         agents_->Run(ranks, order.folder, order.input, order.supervisor, signals, watch));
  const bool all_well = std::all_of(ends.begin(), ends.end(), EndedWell);
  if (mirror && all_well) {
    FTUNE_RETURN_IF_ERROR(mirror->Finish());
    const bool done = std::all_of(ends.begin(), ends.end(),
                                  [](const RankEnd& end) { return WEXITSTATUS(end.wait_status) == 0; });
    if (done) mirror->Leave();
  }
  return ends;
}

}  // namespace ftune
