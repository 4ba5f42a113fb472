#include "parallel/launch/agents.h"

#include <poll.h>

#include <algorithm>
#include <deque>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/monotonic_clock.h"
#include "base/strings.h"
#include "parallel/comm/status_text.h"
#include "parallel/launch/mirror/mirror_messages.h"

namespace ftune {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr absl::Duration kForGoodbye = absl::Seconds(5);
constexpr char kGone[] = "the connection to its agent has ended";
// Beside what ranks have to end: for a host that is slow, or whose disk is.
constexpr absl::Duration kForEnds = absl::Seconds(20);
// Beside the time after which a host is silent: one that cannot be reached is told from ranks that do not
// end.
constexpr absl::Duration kForSilence = absl::Seconds(5);

absl::Status HostError(const std::string& host, std::string message, std::string hint = "") {
  return UserError(ExitCode::kRankFailed,
                   {.key = StrCat("host ", host), .message = std::move(message), .hint = std::move(hint)});
}

bool IsGood(int wait_status, const SupervisorOptions& options) {
  return WIFEXITED(wait_status) &&
         std::find(options.good.begin(), options.good.end(), WEXITSTATUS(wait_status)) != options.good.end();
}

Frame SignalFrame(int signal) { return {.kind = agent::kSignal, .facts = {{"signal", signal}}}; }

std::string InOneLine(const std::string& text) {
  std::string line;
  for (const char c : text) line += c == '\n' || c == '\r' ? ' ' : c;
  return line;
}

}  // namespace

Agents::Agents(std::vector<std::string> names, std::unique_ptr<HostConnector> connector,
               const AgentsOptions& options)
    : connector_(std::move(connector)), options_(options), links_({.timeout = options.heartbeat_timeout}) {
  for (std::string& name : names) hosts_.push_back({.name = std::move(name)});
}

Agents::~Agents() {
  for (const Host& host : hosts_) {
    if (host.link >= 0) links_.Close(host.link, /*flush=*/true);
  }
  links_.Flush(kForGoodbye);
  for (int host = 0; host < size(); ++host) {
    if (hosts_[host].link >= 0) connector_->Disconnect(host);
  }
}

int Agents::HostOf(int link) const {
  const auto found =
      std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& host) { return host.link == link; });
  return found == hosts_.end() ? -1 : static_cast<int>(found - hosts_.begin());
}

void Agents::Await(absl::Duration timeout) {
  pollfd wait = {.fd = links_.event_descriptor(), .events = POLLIN};
  poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(std::max(timeout, absl::ZeroDuration()))));
}

void Agents::Disconnect(int host) {
  if (hosts_[host].link < 0) return;
  links_.Close(hosts_[host].link, /*flush=*/true);
  links_.Flush(kForGoodbye);
  connector_->Disconnect(host);
  hosts_[host].link = -1;
  hosts_[host].facts.reset();
}

void Agents::Lose(int host) {
  links_.Close(hosts_[host].link, /*flush=*/false);
  hosts_[host].link = -1;
  hosts_[host].facts.reset();
}

absl::Status Agents::WhyLost(int host, const LinkEvent& event) {
  if (event.kind == LinkEvent::Kind::kSilent) {
    return HostError(hosts_[host].name,
                     StrCat("it has been silent for ", absl::FormatDuration(options_.heartbeat_timeout)),
                     "it is switched off, stands still or cannot be reached any more");
  }
  std::string why = connector_->WhyEnded(host);
  if (why.empty()) why = InOneLine(links_.Noise(event.link));
  if (why.empty()) why = event.why;
  return HostError(hosts_[host].name,
                   StrCat("the connection to its agent has ended", why.empty() ? "" : ": ", why));
}

absl::Status Agents::Hello(int host, const Frame& frame) {
  if (frame.kind != agent::kHello) return HostError(hosts_[host].name, "its agent does not say hello");
  absl::StatusOr<agent::HostFacts> facts = agent::DecodeHostFacts(frame.facts);
  if (!facts.ok())
    return HostError(hosts_[host].name, "its ftune is another version", "have the same one on all hosts");
  if (facts->version != options_.version) {
    return UserError(ExitCode::kRankFailed, {.key = StrCat("host ", hosts_[host].name),
                                             .message = "its ftune is another version",
                                             .found = facts->version,
                                             .expected = options_.version,
                                             .hint = "have the same one on all hosts"});
  }
  facts->skew = facts->clock - absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  hosts_[host].facts = *std::move(facts);
  return absl::OkStatus();
}

std::vector<HostFailure> Agents::Connect(const std::vector<int>& hosts) {
  std::deque<int> waiting;
  for (const int host : hosts) {
    if (!connected(host)) waiting.push_back(host);
  }
  std::map<int, absl::Duration> greeting;  // until when
  std::vector<HostFailure> failures;
  const auto fail = [&](int host, absl::Status why) {
    if (hosts_[host].link >= 0) Lose(host);
    connector_->Disconnect(host);
    greeting.erase(host);
    failures.push_back({host, std::move(why)});
  };
  while (!waiting.empty() || !greeting.empty()) {
    while (!waiting.empty() && std::ssize(greeting) < options_.connect_at_once) {
      const int host = waiting.front();
      waiting.pop_front();
      absl::StatusOr<AgentConnection> connection = connector_->Connect(host);
      if (!connection.ok()) {
        failures.push_back({host, connection.status()});
        continue;
      }
      hosts_[host].link =
          links_.Add(std::move(connection->in), std::move(connection->out), /*awaits_begin=*/true);
      greeting[host] = MonotonicNow() + options_.connect_timeout;
    }
    Await(kTick);
    for (const LinkEvent& event : links_.Take()) {
      const int host = HostOf(event.link);
      if (host < 0) continue;
      if (event.kind == LinkEvent::Kind::kFrame && greeting.contains(host)) {
        const absl::Status hello = Hello(host, event.frame);
        if (hello.ok()) {
          greeting.erase(host);
        } else {
          fail(host, hello);
        }
      } else if (event.kind != LinkEvent::Kind::kFrame) {
        const absl::Status why = WhyLost(host, event);
        if (greeting.contains(host)) {
          fail(host, why);
        } else {
          failures.push_back({host, why});
          Lose(host);
        }
      }
    }
    const std::map<int, absl::Duration> pending = greeting;
    for (const auto& [host, deadline] : pending) {
      if (MonotonicNow() < deadline || !greeting.contains(host)) continue;
      const std::string noise = InOneLine(links_.Noise(hosts_[host].link));
      fail(host,
           HostError(hosts_[host].name,
                     StrCat("no agent has answered within ", absl::FormatDuration(options_.connect_timeout),
                            noise.empty() ? "" : StrCat(", but: ", noise)),
                     "try `ssh -o BatchMode=yes` to it, and `ftune --version` there"));
    }
  }
  return failures;
}

std::vector<absl::StatusOr<Json>> Agents::Ask(const std::vector<int>& hosts, const char* kind,
                                              const Json& facts, Patience patience) {
  std::vector<absl::StatusOr<Json>> answers;
  std::set<int> open;
  for (const int host : hosts) {
    answers.push_back(HostError(hosts_[host].name, StrCat("its agent has not answered within ",
                                                          absl::FormatDuration(options_.answer_timeout))));
    if (hosts_[host].link < 0) {
      answers.back() = HostError(hosts_[host].name, kGone);
      continue;
    }
    open.insert(host);
    links_.Send(hosts_[host].link, {.kind = kind, .facts = facts});
  }
  bool waits_for_signal = patience == Patience::kUntilSignal;
  absl::Duration deadline = MonotonicNow() + options_.answer_timeout;
  while (!open.empty() && (waits_for_signal || MonotonicNow() < deadline)) {
    Await(kTick);
    if (const std::optional<int> signal = EndingSignal(); signal && waits_for_signal) {
      waits_for_signal = false;
      deadline = MonotonicNow() + options_.answer_timeout;
      for (const int host : open) links_.Send(hosts_[host].link, SignalFrame(*signal));
    }
    for (const LinkEvent& event : links_.Take()) {
      const int host = HostOf(event.link);
      const auto place = std::find(hosts.begin(), hosts.end(), host);
      if (host < 0) continue;
      if (event.kind == LinkEvent::Kind::kFrame && event.frame.kind != agent::kAnswer) {
        TakeOfMirror(event.frame);
        continue;
      }
      absl::StatusOr<Json> answer = event.frame.facts;
      if (event.kind != LinkEvent::Kind::kFrame) {
        answer = WhyLost(host, event);
        Lose(host);
      } else if (event.frame.facts.contains("error")) {
        answer = DecodeStatus(event.frame.facts.value("error", std::string()));
      }
      if (place != hosts.end()) answers[place - hosts.begin()] = std::move(answer);
      open.erase(host);
    }
  }
  // An answer that still came would be taken for that to the next question.
  for (const int host : open) Lose(host);
  return answers;
}

std::function<void(const Frame&)> Agents::WayTo(int host) {
  if (hosts_[host].link < 0) return [](const Frame&) {};
  return [this, link = hosts_[host].link](const Frame& frame) { links_.Send(link, frame); };
}

bool Agents::TakeOfMirror(const Frame& frame) const {
  if (frame.kind != mirror::kDo && frame.kind != mirror::kDone) return false;
  if (take_mirror_) take_mirror_(frame);
  return true;
}

absl::Status Agents::Await(const std::function<bool()>& done) {
  while (!done()) {
    Await(kTick);
    if (EndingSignal()) return UserError(ExitCode::kRankFailed, {.message = "interrupted"});
    for (const LinkEvent& event : links_.Take()) {
      const int from = HostOf(event.link);
      if (from < 0) continue;
      if (event.kind == LinkEvent::Kind::kFrame) {
        TakeOfMirror(event.frame);
        continue;
      }
      const absl::Status why = WhyLost(from, event);
      Lose(from);
      return why;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RankEnd>> Agents::Run(const std::vector<HostRanks>& ranks,
                                                 const std::string& folder, const std::string& input,
                                                 const SupervisorOptions& options, TakenSignals& signals,
                                                 AgentsObserver& observer) {
  Course course = {.options = &options, .observer = &observer};
  signal_ = 0;
  mirror_status_ = absl::OkStatus();
  for (const HostRanks& on : ranks) {
    if (hosts_[on.host].link < 0) return HostError(hosts_[on.host].name, kGone);
  }
  for (const HostRanks& on : ranks) {
    course.left[on.host] = std::set<int>(on.ranks.begin(), on.ranks.end());
    const agent::StartOrder order = {.folder = folder,
                                     .ranks = on.ranks,
                                     .arguments = on.arguments,
                                     .environments = on.environments,
                                     .supervisor = options,
                                     .mirrors = on.mirrors};
    if (on.mirrors) {
      mirror_status_ =
          HostError(hosts_[on.host].name, "it is lost before all that the run has written there was here");
    }
    links_.Send(hosts_[on.host].link, {.kind = agent::kStart, .facts = agent::Encode(order), .bytes = input});
  }
  course_ = &course;
  while (!course.left.empty()) {
    pollfd waits[] = {{.fd = links_.event_descriptor(), .events = POLLIN},
                      {.fd = signals.descriptor(), .events = POLLIN}};
    poll(waits, std::size(waits), static_cast<int>(absl::ToInt64Milliseconds(kTick)));
    TakeSignals(signals, course);
    for (const LinkEvent& event : links_.Take()) Take(event, course);
    GiveUp(course);
    observer.OnTick();
  }
  course_ = nullptr;
  FTUNE_RETURN_IF_ERROR(course.failed);
  return std::move(course.ends);
}

void Agents::SendToAll(const Course& course, const Frame& frame, int but) {
  for (const auto& [host, ranks] : course.left) {
    if (host != but) links_.Send(hosts_[host].link, frame);
  }
}

void Agents::SendToRanks(const Course& course, const Frame& frame) {
  for (const auto& [host, ranks] : course.left) {
    if (!ranks.empty()) links_.Send(hosts_[host].link, frame);
  }
}

void Agents::TakeSignals(TakenSignals& signals, Course& course) {
  while (const std::optional<int> signal = signals.Next()) {
    if (*signal == SIGCHLD) continue;
    if (*signal == SIGTSTP) {
      StopAll(course);
      continue;
    }
    if (*signal != SIGUSR1) signal_ = *signal;
    SendToAll(course, SignalFrame(*signal));
  }
}

void Agents::Pass(int signal) { SendToRanks(*course_, SignalFrame(signal)); }

void Agents::KillAll() {
  SendToAll(*course_, {.kind = agent::kKill});
  course_->ending_since = course_->ending_since.value_or(MonotonicNow());
}

void Agents::StopAll(const Course& course) {
  SendToAll(course, {.kind = agent::kStop});
  links_.Pause(true);
  links_.Flush(kForGoodbye);
  StopAsTerminalAsks();
  links_.Pause(false);
  SendToAll(course, {.kind = agent::kContinue});
}

void Agents::Take(const LinkEvent& event, Course& course) {
  const int host = HostOf(event.link);
  if (host < 0) return;
  if (event.kind == LinkEvent::Kind::kFrame) return TakeFrame(host, event.frame, course);
  const absl::Status why = WhyLost(host, event);
  const std::optional<ErrorDetail> detail = DetailOf(why);
  Lose(host);
  if (course.left.contains(host))
    LoseRanks(host, detail ? detail->message : std::string(why.message()), course);
}

void Agents::TakeFrame(int host, const Frame& frame, Course& course) {
  if (TakeOfMirror(frame)) return;
  const auto left = course.left.find(host);
  if (left == course.left.end()) return;
  const int rank = frame.facts.value("rank", -1);
  const pid_t pid = frame.facts.value("pid", -1);
  AgentsObserver& observer = *course.observer;
  if (frame.kind == agent::kStarted) observer.OnStarted(rank, pid);
  if (frame.kind == agent::kOutput) observer.OnOutput(rank, frame.bytes);
  if (frame.kind == agent::kStopped) observer.OnStopped(rank, pid);
  if (frame.kind == agent::kContinued) observer.OnContinued(rank, pid);
  if (frame.kind == agent::kStranger) observer.OnStranger(frame.facts.value("address", std::string()));
  if (frame.kind == agent::kPulse) {
    const absl::StatusOr<Pulse> pulse = agent::DecodePulse(frame.facts.value("pulse", Json::object()));
    if (!pulse.ok()) return course.failed.Update(pulse.status());
    observer.OnPulse(rank, *pulse);
  }
  if (frame.kind == agent::kMet) SendToAll(course, {.kind = agent::kMet}, host);
  if (frame.kind == agent::kEnded) {
    absl::StatusOr<RankEnd> end = agent::DecodeRankEnd(frame.facts);
    if (!end.ok()) return course.failed.Update(end.status());
    left->second.erase(end->rank);
    end->host = hosts_[host].name;
    course.ends.push_back(*std::move(end));
    if (!IsGood(course.ends.back().wait_status, *course.options)) EndOthers(host, course);
  }
  // An order that was not taken is answered with an error.
  const bool ended = frame.kind == agent::kAllEnded;
  if ((!ended && frame.kind != agent::kAnswer) || (!ended && !frame.facts.contains("error"))) return;
  if (frame.facts.contains("error")) {
    const absl::Status why = DecodeStatus(frame.facts.value("error", std::string()));
    course.failed.Update(HostError(hosts_[host].name, std::string(why.message())));
    EndOthers(host, course);
  }
  if (frame.facts.value("mirrors", false)) {
    mirror_status_ = DecodeStatus(frame.facts.value("mirrored", std::string()));
  }
  course.left.erase(left);
}

void Agents::LoseRanks(int host, const std::string& why, Course& course) {
  for (const int rank : course.left[host]) {
    course.ends.push_back({.rank = rank, .host = hosts_[host].name, .lost = why});
  }
  course.left.erase(host);
  course.observer->OnLost(hosts_[host].name, why);
  const absl::Duration grace = course.options->until_term + course.options->until_kill;
  lost_are_gone_ = MonotonicNow() + options_.heartbeat_timeout + grace;
  EndOthers(host, course);
}

void Agents::EndAll() { EndOthers(/*host=*/-1, *course_); }

void Agents::EndOthers(int host, Course& course) {
  if (!course.ending_since) SendToAll(course, {.kind = agent::kEnd}, host);
  course.ending_since = course.ending_since.value_or(MonotonicNow());
}

void Agents::GiveUp(Course& course) {
  if (!course.ending_since) return;
  const absl::Duration grace = course.options->until_term + course.options->until_kill;
  const absl::Duration since = MonotonicNow() - *course.ending_since;
  if (since > grace + kForEnds / 2 && !std::exchange(course.killed, true)) {
    SendToRanks(course, {.kind = agent::kKill});
  }
  if (since < std::max(grace + kForEnds, options_.heartbeat_timeout + kForSilence)) return;
  const std::map<int, std::set<int>> left = course.left;
  for (const auto& [host, ranks] : left) {
    // What they have left may still be on its way here.
    if (ranks.empty()) continue;
    Lose(host);
    LoseRanks(host, "its ranks have not ended, though they were killed: they wait for the system", course);
  }
}

absl::Duration Agents::UntilLostAreGone() const {
  return lost_are_gone_ ? std::max(*lost_are_gone_ - MonotonicNow(), absl::ZeroDuration())
                        : absl::ZeroDuration();
}

}  // namespace ftune
