#include "parallel/launch/agent.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/http/network_library.h"
#include "base/strings.h"
#include "parallel/comm/status_text.h"
#include "parallel/launch/agent_messages.h"
#include "parallel/launch/core_shares.h"
#include "parallel/launch/frame_links.h"
#include "parallel/launch/host_identity.h"
#include "parallel/launch/join_world.h"
#include "parallel/launch/link_probe.h"
#include "parallel/launch/mirror/host_mirror.h"
#include "parallel/launch/mirror/mirror_messages.h"
#include "parallel/launch/program_hash.h"
#include "parallel/launch/stop_limit.h"
#include "parallel/launch/supervisor.h"
#include "parallel/launch/tcp_store.h"
#include "parallel/launch/tcp_store_server.h"
#include "parallel/launch/tls_relay.h"

namespace ftune {
namespace {

using agent::StartOrder;
using Json = nlohmann::json;

constexpr char kLoopback[] = "127.0.0.1";
constexpr absl::Duration kReachTimeout = absl::Seconds(10);
constexpr absl::Duration kLastWords = absl::Seconds(5);
constexpr int kLookMilliseconds = 50;  // between looks whether all has been sent

absl::StatusOr<Network*> LoadTls() { return LoadNetwork("encrypted connections", "leave launch.tls out"); }

agent::HostFacts FactsHere(const AgentOptions& options) {
  agent::HostFacts facts = {.version = options.version,
                            .build = ProgramHash(),
                            .identity = HostIdentity(),
                            .name = HostName(),
                            .cores = static_cast<int>(AllowedCores().size()),
                            .clock = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch())};
  // "CLIENT PORT SERVER PORT"
  const std::optional<std::string> connection = ProcessEnvironment()("SSH_CONNECTION");
  if (!connection) return facts;
  const std::vector<std::string> words = absl::StrSplit(*connection, ' ');
  if (words.size() == 4) {
    facts.client_address = words[0];
    facts.server_address = words[2];
  }
  return facts;
}

// What a rank writes, in memory, until the launcher has been sent it.
class Output {
 public:
  static absl::StatusOr<Output> Create(int rank) {
    Descriptor file(memfd_create("output", MFD_CLOEXEC));
    if (!file) {
      return UserError(ExitCode::kRankFailed,
                       {.key = StrCat("rank ", rank), .message = "there is no memory for its output"});
    }
    return Output(rank, std::move(file));
  }

  std::string path() const { return StrCat("/proc/self/fd/", file_.get()); }

  void Forward(FrameLinks& links, int link) {
    std::string bytes(kMostAtOnce, '\0');
    while (true) {
      const ssize_t count = pread(file_.get(), bytes.data(), bytes.size(), at_);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      at_ += count;
      links.Send(link, {.kind = agent::kOutput,
                        .facts = {{"rank", rank_}},
                        .bytes = bytes.substr(0, static_cast<size_t>(count))});
    }
    // What has been sent need not be kept.
    if (at_ - freed_ < kWorthFreeing) return;
    fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, freed_, at_ - freed_);
    freed_ = at_;
  }

 private:
  static constexpr size_t kMostAtOnce = size_t{1} << 16;
  static constexpr off_t kWorthFreeing = off_t{1} << 20;

  Output(int rank, Descriptor file) : rank_(rank), file_(std::move(file)) {}

  int rank_;
  Descriptor file_;
  off_t at_ = 0, freed_ = 0;
};

class Agent final : public SupervisorObserver {
 public:
  Agent(Descriptor in, Descriptor out, const AgentOptions& options)
      : options_(options), links_({.timeout = options.heartbeat_timeout}) {
    link_ = links_.Add(std::move(in), std::move(out), /*awaits_begin=*/false, /*begins=*/true);
  }

  int Serve();

  void OnTick() override;
  void OnStopped(int rank, pid_t pid) override { Tell(agent::kStopped, order_.ranks[rank], pid); }
  void OnContinued(int rank, pid_t pid) override { Tell(agent::kContinued, order_.ranks[rank], pid); }
  void OnStarted(int number, const RankProcess& process) override {
    Tell(agent::kStarted, order_.ranks[number], process.pid);
  }
  void OnPulse(int number, const Pulse& pulse) override {
    links_.Send(link_, {.kind = agent::kPulse,
                        .facts = {{"rank", order_.ranks[number]}, {"pulse", agent::Encode(pulse)}}});
  }
  void OnEnd(const RankEnd& end) override;
  bool HaveMet() override { return have_met_; }
  int wakes() const override { return links_.event_descriptor(); }

 private:
  void Tell(const char* kind, int rank, pid_t pid) {
    links_.Send(link_, {.kind = kind, .facts = {{"rank", rank}, {"pid", pid}}});
  }
  void TakeEvents() {
    for (LinkEvent& event : links_.Take()) events_.push_back(std::move(event));
  }
  LinkEvent NextEvent() {
    LinkEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }
  void Answer(const absl::StatusOr<Json>& answer);
  void Take(const LinkEvent& event);
  void TakeWhileRanksRun(const Frame& frame);
  absl::StatusOr<Json> Check(const Json& facts) const;
  absl::StatusOr<Json> ServeStore(const Json& facts);
  absl::StatusOr<Json> Reach(const Json& facts);
  absl::StatusOr<Json> Listen(const Json& facts);
  static absl::StatusOr<Json> Measure(const Json& facts);
  absl::StatusOr<Json> Start(const Frame& frame);
  absl::StatusOr<Json> OpenMirror(const Json& facts);
  absl::StatusOr<Json> CollectMirror(const Json& facts);
  absl::StatusOr<Json> LeaveMirror();
  absl::StatusOr<Json> AnswerTo(const Frame& question);
  absl::Status RunRanks();
  // What the ranks have left goes to the launcher, as long as that is there.
  absl::Status FinishMirror();
  void LookWhetherAllHaveMet();
  void TellStrangers();

  AgentOptions options_;
  TakenSignals* signals_ = nullptr;
  FrameLinks links_;
  int link_ = 0;
  std::deque<LinkEvent> events_;  // not looked at yet
  bool launcher_gone_ = false;
  std::unique_ptr<LinkProbeServer> link_probe_;
  std::unique_ptr<TcpStoreServer> store_;
  std::unique_ptr<TlsRelay> serving_, calling_;  // before the store, and on the way to it
  std::string store_prefix_;
  int store_ranks_ = 0;
  int joined_ = 0;  // the first so many ranks
  bool have_met_ = false;
  StartOrder order_;
  std::string input_;
  bool ordered_ = false;
  std::vector<Output> outputs_;
  std::unique_ptr<HostMirror> mirror_;
  Supervisor* supervisor_ = nullptr;  // while ranks run
};

void Agent::Answer(const absl::StatusOr<Json>& answer) {
  const Json facts = answer.ok() ? *answer : Json{{"error", EncodeStatus(answer.status())}};
  links_.Send(link_, {.kind = agent::kAnswer, .facts = facts});
}

absl::StatusOr<Json> Agent::Check(const Json& facts) const {
  Json missing = Json::array();
  for (const std::string& path : facts.at("paths").get<std::vector<std::string>>()) {
    if (!Exists(path)) missing.push_back(path);
  }
  const std::string probe = facts.value("probe", std::string());
  return Json{{"missing", missing},
              {"no_folder", !Exists(facts.at("folder").get<std::string>())},
              {"sees_probe", !probe.empty() && Exists(probe)}};
}

absl::StatusOr<Json> Agent::ServeStore(const Json& facts) {
  serving_.reset();
  store_.reset();
  store_prefix_ = facts.at("prefix").get<std::string>();
  store_ranks_ = facts.at("ranks").get<int>();
  const std::string address = facts.at("address").get<std::string>();
  const bool tls = facts.at("tls").get<bool>();
  const auto peers = std::make_shared<RelayedPeers>();
  FTUNE_ASSIGN_OR_RETURN(store_, TcpStoreServer::Start(tls ? kLoopback : address, 0, store_prefix_, peers));
  if (!tls) return Json{{"port", store_->port()}, {"fingerprint", ""}};
  FTUNE_ASSIGN_OR_RETURN(Network* const network, LoadTls());
  FTUNE_ASSIGN_OR_RETURN(TcpListener listener, ListenTcp(address, 0));
  FTUNE_ASSIGN_OR_RETURN(serving_, TlsRelay::Serve(*network, std::move(listener),
                                                   {.address = kLoopback, .port = store_->port()}, peers));
  return Json{{"port", serving_->port()}, {"fingerprint", serving_->fingerprint()}};
}

absl::StatusOr<Json> Agent::Reach(const Json& facts) {
  TlsTarget target = {.address = facts.at("address").get<std::string>(), .port = facts.at("port").get<int>()};
  const std::string prefix = facts.at("prefix").get<std::string>();
  const std::string fingerprint = facts.at("fingerprint").get<std::string>();
  std::string own_address;
  if (!fingerprint.empty()) {
    FTUNE_ASSIGN_OR_RETURN(Network* const network, LoadTls());
    // Ranks reach the store by this host's loopback, but other ranks by the address that it has on that way.
    FTUNE_ASSIGN_OR_RETURN(const Descriptor direct,
                           ConnectTcp(target.address, target.port, absl::Now() + kReachTimeout));
    own_address = AddressOf(direct.get());
    calling_.reset();
    FTUNE_ASSIGN_OR_RETURN(calling_, TlsRelay::Call(*network, target, fingerprint));
    target = {.address = kLoopback, .port = calling_->port()};
  }
  absl::StatusOr<std::unique_ptr<TcpStore>> store =
      TcpStore::Connect(target.address, target.port, prefix, kReachTimeout);
  if (!store.ok() && calling_ && !calling_->why_failed().empty()) {
    return UserError(ExitCode::kRankFailed, {.message = StrCat("TLS: ", calling_->why_failed())});
  }
  FTUNE_RETURN_IF_ERROR(store.status());
  if (own_address.empty()) own_address = (*store)->OwnAddress();
  return Json{{"own_address", own_address}, {"port", target.port}};
}

absl::StatusOr<Json> Agent::Listen(const Json& facts) {
  link_probe_.reset();
  FTUNE_ASSIGN_OR_RETURN(link_probe_, LinkProbeServer::Start(facts.at("token").get<std::string>()));
  return Json{{"port", link_probe_->port()}};
}

absl::StatusOr<Json> Agent::Measure(const Json& facts) {
  FTUNE_ASSIGN_OR_RETURN(const LinkSpeed speed,
                         MeasureLink(facts.at("addresses").get<std::vector<std::string>>(),
                                     facts.at("port").get<int>(), facts.at("token").get<std::string>()));
  return Json{{"round_trip", absl::ToDoubleSeconds(speed.round_trip)},
              {"sent", speed.sent_per_second},
              {"received", speed.received_per_second}};
}

absl::StatusOr<Json> Agent::OpenMirror(const Json& facts) {
  mirror_.reset();  // of an earlier attempt
  FTUNE_ASSIGN_OR_RETURN(mirror_, HostMirror::Open(DecodeMirrorOrder(facts), [this](const Frame& frame) {
                           links_.Send(link_, frame);
                         }));
  return mirror_->Facts();
}

absl::StatusOr<Json> Agent::CollectMirror(const Json& facts) {
  if (!mirror_) return UserError(ExitCode::kRankFailed, {.message = "there is no mirror to collect from"});
  mirror_->StartSending(DecodeMirrorInventory(facts.at("inventory")));
  FTUNE_RETURN_IF_ERROR(FinishMirror());
  return Json::object();
}

absl::StatusOr<Json> Agent::LeaveMirror() {
  if (mirror_) FTUNE_RETURN_IF_ERROR(mirror_->Remove());
  mirror_.reset();
  return Json::object();
}

absl::StatusOr<Json> Agent::Start(const Frame& frame) {
  FTUNE_ASSIGN_OR_RETURN(order_, agent::DecodeStartOrder(frame.facts));
  if (!order_.mirrors) mirror_.reset();
  if (mirror_) FTUNE_RETURN_IF_ERROR(mirror_->StartSending());
  input_ = frame.bytes;
  outputs_.clear();
  for (const int rank : order_.ranks) {
    FTUNE_ASSIGN_OR_RETURN(Output output, Output::Create(rank));
    outputs_.push_back(std::move(output));
  }
  std::error_code stays;
  std::filesystem::current_path(order_.folder, stays);
  ordered_ = true;
  return Json::object();
}

void Agent::Take(const LinkEvent& event) {
  if (event.kind != LinkEvent::Kind::kFrame) {
    launcher_gone_ = true;
    return;
  }
  if (mirror_) mirror_->Take(event.frame);
  constexpr std::array kQuestions = {agent::kCheck,   agent::kServe,  agent::kReach,   agent::kStart,
                                     agent::kExamine, agent::kListen, agent::kMeasure, agent::kMirror,
                                     agent::kCollect, agent::kLeave};
  const bool asks = std::any_of(kQuestions.begin(), kQuestions.end(),
                                [&](const char* kind) { return event.frame.kind == kind; });
  if (asks) Answer(AnswerTo(event.frame));
}

absl::StatusOr<Json> Agent::AnswerTo(const Frame& question) {
  const std::string& kind = question.kind;
  try {
    if (kind == agent::kCheck) return Check(question.facts);
    if (kind == agent::kServe) return ServeStore(question.facts);
    if (kind == agent::kReach) return Reach(question.facts);
    if (kind == agent::kExamine) return options_.examine(question.facts);
    if (kind == agent::kListen) return Listen(question.facts);
    if (kind == agent::kMeasure) return Measure(question.facts);
    if (kind == agent::kMirror) return OpenMirror(question.facts);
    if (kind == agent::kCollect) return CollectMirror(question.facts);
    if (kind == agent::kLeave) return LeaveMirror();
    return Start(question);
  } catch (const Json::exception& error) {
    return UserError(ExitCode::kRankFailed,
                     {.message = StrCat("the launcher is another version: ", error.what())});
  }
}

void Agent::TakeWhileRanksRun(const Frame& frame) {
  if (mirror_) {
    mirror_->Take(frame);
    if (frame.kind == agent::kRequest) mirror_->Request(frame.facts.value("name", std::string()));
  }
  if (frame.kind == agent::kMet) have_met_ = true;
  if (frame.kind == agent::kEnd) supervisor_->EndAll();
  if (frame.kind == agent::kKill) supervisor_->KillAll();
  if (frame.kind == agent::kSignal) supervisor_->Pass(frame.facts.value("signal", SIGTERM));
  const bool stops = frame.kind == agent::kStop;
  if (!stops && frame.kind != agent::kContinue) return;
  // The launcher stops itself, and is silent until it goes on.
  links_.Pause(stops);
  supervisor_->SignalGroups(stops ? SIGSTOP : SIGCONT);
}

void Agent::LookWhetherAllHaveMet() {
  if (!store_ || have_met_) return;
  while (joined_ < store_ranks_ && store_->Has(StrCat(store_prefix_, JoinedKey(joined_)))) ++joined_;
  if (joined_ < store_ranks_) return;
  have_met_ = true;
  links_.Send(link_, {.kind = agent::kMet});
}

void Agent::TellStrangers() {
  if (!store_) return;
  std::vector<std::string> addresses = store_->TakeStrangers();
  for (std::string& address : serving_ ? serving_->TakeStrangers() : std::vector<std::string>()) {
    addresses.push_back(std::move(address));
  }
  for (const std::string& address : addresses) {
    links_.Send(link_, {.kind = agent::kStranger, .facts = {{"address", address}}});
  }
}

void Agent::OnTick() {
  for (Output& output : outputs_) output.Forward(links_, link_);
  LookWhetherAllHaveMet();
  TellStrangers();
  if (mirror_) mirror_->PassRequests();
  TakeEvents();
  while (!events_.empty()) {
    const LinkEvent event = NextEvent();
    if (event.kind == LinkEvent::Kind::kFrame) {
      TakeWhileRanksRun(event.frame);
    } else if (!std::exchange(launcher_gone_, true)) {
      links_.Pause(false);
      supervisor_->SignalGroups(SIGCONT);
      supervisor_->EndAll();
    }
  }
}

void Agent::OnEnd(const RankEnd& end) {
  RankEnd global = end;
  global.rank = order_.ranks[end.rank];
  // What it has said comes before its end.
  outputs_[end.rank].Forward(links_, link_);
  links_.Send(link_, {.kind = agent::kEnded, .facts = agent::Encode(global)});
}

absl::Status Agent::RunRanks() {
  const int count = static_cast<int>(order_.ranks.size());
  const std::vector<std::vector<int>> cores = ShareCores(AllowedCores(), count);
  std::vector<RankCommand> commands;
  for (int i = 0; i < count; ++i) {
    commands.push_back({.arguments = order_.arguments[i],
                        .environment = order_.environments[i],
                        .cores = cores[i],
                        .input = input_,
                        .output = outputs_[i].path()});
  }
  Supervisor supervisor(order_.supervisor, *signals_, *this);
  supervisor_ = &supervisor;
  const absl::Status run = supervisor.Run(commands).status();
  supervisor_ = nullptr;
  return run;
}

absl::Status Agent::FinishMirror() {
  mirror_->Finish();
  while (!launcher_gone_ && !mirror_->finished()) {
    pollfd wait = {.fd = links_.event_descriptor(), .events = POLLIN};
    poll(&wait, 1, kLookMilliseconds);
    TakeEvents();
    while (!events_.empty()) {
      const LinkEvent event = NextEvent();
      launcher_gone_ |= event.kind != LinkEvent::Kind::kFrame;
      if (launcher_gone_) break;
      mirror_->Take(event.frame);
      if (event.frame.kind == agent::kStop) links_.Pause(true);
      if (event.frame.kind == agent::kContinue) links_.Pause(false);
      // Somebody does not want to wait for it.
      const bool ends = event.frame.kind == agent::kSignal && event.frame.facts.value("signal", 0) != SIGUSR1;
      if (ends || event.frame.kind == agent::kKill) {
        mirror_->StopSending();
        return UserError(ExitCode::kRankFailed,
                         {.key = StrCat("host ", HostName()),
                          .message = "interrupted before all that the first rank has written was sent",
                          .hint = StrCat("it is in ", mirror_->folder().string(), " there")});
      }
    }
  }
  const absl::Status sent = mirror_->status();
  mirror_->StopSending();
  return sent;
}

int Agent::Serve() {
  links_.Send(link_, {.kind = agent::kHello, .facts = agent::Encode(FactsHere(options_))});
  while (!launcher_gone_) {
    pollfd wait = {.fd = links_.event_descriptor(), .events = POLLIN};
    if (events_.empty()) poll(&wait, 1, -1);
    TakeEvents();
    while (!ordered_ && !events_.empty()) Take(NextEvent());
    if (!std::exchange(ordered_, false)) continue;
    have_met_ = false;
    joined_ = 0;
    absl::Status run;
    {
      TakenSignals signals;
      signals_ = &signals;
      run = RunRanks();
      signals_ = nullptr;
    }
    store_.reset();
    Json end = Json::object();
    if (!run.ok()) end["error"] = EncodeStatus(run);
    if (mirror_) end.update({{"mirrors", true}, {"mirrored", EncodeStatus(FinishMirror())}});
    links_.Send(link_, {.kind = agent::kAllEnded, .facts = std::move(end)});
  }
  links_.Flush(kLastWords);
  return 0;
}

}  // namespace

int ServeAgent(Descriptor in, Descriptor out, const AgentOptions& options) {
  // The launcher takes the host for lost then, and that no rank is left there.
  const StopLimit stop_limit(options.heartbeat_timeout);
  return Agent(std::move(in), std::move(out), options).Serve();
}

}  // namespace ftune
