// The agents of a run's hosts, as its launcher has them: it connects to them, asks them, and has them run the
// ranks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/launch/agent_messages.h"
#include "parallel/launch/frame_links.h"
#include "parallel/launch/host_connector.h"
#include "parallel/launch/supervisor.h"
#include "parallel/launch/taken_signals.h"

namespace ftune {

struct AgentsOptions {
  std::string version;                                   // of ftune, which all have
  absl::Duration connect_timeout = absl::Seconds(30);    // until an agent says hello
  absl::Duration answer_timeout = absl::Seconds(60);     // to a question
  absl::Duration heartbeat_timeout = absl::Seconds(30);  // a host that is silent for so long is lost
  int connect_at_once = 16;                              // so many that have not said hello yet
};

// Of one host, by its number.
struct HostFailure {
  int host = 0;
  absl::Status why;
};

// What ranks on one host are started with.
struct HostRanks {
  int host = 0;
  std::vector<int> ranks;
  std::vector<std::vector<std::string>> arguments, environments;
  bool mirrors = false;  // its agent has a mirror of the run's folder
};

// What somebody wants to hear of ranks on several hosts.
class AgentsObserver {
 public:
  virtual ~AgentsObserver() = default;
  virtual void OnTick() = 0;
  virtual void OnStarted(int rank, pid_t pid) = 0;
  virtual void OnOutput(int rank, std::string_view bytes) = 0;
  virtual void OnStopped(int rank, pid_t pid) = 0;
  virtual void OnContinued(int rank, pid_t pid) = 0;
  virtual void OnPulse(int rank, const Pulse& pulse) = 0;
  // A host that is lost, with the ranks that it had.
  virtual void OnLost(const std::string& host, const std::string& why) = 0;
  // The ranks' store has refused a connection from this address.
  virtual void OnStranger(const std::string& address) = 0;
};

class Agents {
 public:
  // `names` of the hosts, for messages; `connector` knows them by their place there.
  Agents(std::vector<std::string> names, std::unique_ptr<HostConnector> connector,
         const AgentsOptions& options);
  ~Agents();
  Agents(const Agents&) = delete;
  Agents& operator=(const Agents&) = delete;

  int size() const { return static_cast<int>(hosts_.size()); }
  const std::string& name(int host) const { return hosts_[host].name; }
  bool connected(int host) const { return hosts_[host].link >= 0 && hosts_[host].facts.has_value(); }
  const agent::HostFacts& facts(int host) const { return *hosts_[host].facts; }

  // To those of `hosts` that are not connected yet; → those that cannot be, each with the reason.
  std::vector<HostFailure> Connect(const std::vector<int>& hosts);
  void Disconnect(int host);

  // How long an answer is waited for.
  enum class Patience {
    kUsual,        // options.answer_timeout
    kUntilSignal,  // for ever; where a signal comes that ends this process, the agents are told, and answer
  };
  // The same question to each of them, at once; their answers, in the order of `hosts`.
  std::vector<absl::StatusOr<nlohmann::json>> Ask(const std::vector<int>& hosts, const char* kind,
                                                  const nlohmann::json& facts,
                                                  Patience patience = Patience::kUsual);

  // What leads to a host, for any thread: dropped where it is lost.
  std::function<void(const Frame&)> WayTo(int host);
  // What an agent says of its mirror of the run's folder goes there as it comes, from within the calls below
  // and above; until it is set to nothing.
  void ListenToMirror(std::function<void(const Frame&)> take) { take_mirror_ = std::move(take); }
  // Takes what comes until `done`; an error where a host is lost before, or a signal comes that ends this
  // process.
  absl::Status Await(const std::function<bool()>& done);

  // Runs ranks to their end, of the program's main thread: as Supervisor::Run, on several hosts. `input` is
  // what all ranks read. A host that is lost meanwhile is not connected any more.
  absl::StatusOr<std::vector<RankEnd>> Run(const std::vector<HostRanks>& ranks, const std::string& folder,
                                           const std::string& input, const SupervisorOptions& options,
                                           TakenSignals& signals, AgentsObserver& observer);

  // From within Run, by its observer: a signal for all ranks that have not ended; that all end, as where one
  // of them has failed; that they are killed at once.
  void Pass(int signal);
  void EndAll();
  void KillAll();

  // Why an agent's mirror of the run's folder could not be read to its end, when the ranks had ended.
  const absl::Status& mirror_status() const { return mirror_status_; }
  // The last SIGINT, SIGTERM or SIGHUP that was passed on, or 0.
  int signal() const { return signal_; }
  // How long a rank may still run on a host that was lost: its agent ends it without a launcher.
  absl::Duration UntilLostAreGone() const;

 private:
  struct Host {
    std::string name;
    int link = -1;
    std::optional<agent::HostFacts> facts;
  };
  // Of the ranks while they run.
  struct Course {
    const SupervisorOptions* options = nullptr;
    AgentsObserver* observer = nullptr;
    std::map<int, std::set<int>> left;  // of each host that has not said that all have ended
    std::vector<RankEnd> ends;
    std::optional<absl::Duration> ending_since;
    bool killed = false;
    absl::Status failed;
  };

  int HostOf(int link) const;
  void Await(absl::Duration timeout);
  // Whether it is of a mirror, and was taken.
  bool TakeOfMirror(const Frame& frame) const;
  // Events other than what is awaited: of hosts that are lost.
  absl::Status Hello(int host, const Frame& frame);
  absl::Status WhyLost(int host, const LinkEvent& event);
  void Lose(int host);
  void TakeSignals(TakenSignals& signals, Course& course);
  void StopAll(const Course& course);
  void Take(const LinkEvent& event, Course& course);
  void TakeFrame(int host, const Frame& frame, Course& course);
  void LoseRanks(int host, const std::string& why, Course& course);
  void EndOthers(int host, Course& course);
  void GiveUp(Course& course);
  void SendToAll(const Course& course, const Frame& frame, int but = -1);
  // Where ranks still run: elsewhere the last that they have written may be on its way here.
  void SendToRanks(const Course& course, const Frame& frame);

  std::vector<Host> hosts_;
  std::unique_ptr<HostConnector> connector_;
  AgentsOptions options_;
  FrameLinks links_;
  Course* course_ = nullptr;  // while ranks run
  int signal_ = 0;
  std::function<void(const Frame&)> take_mirror_;
  absl::Status mirror_status_;
  std::optional<absl::Duration> lost_are_gone_;  // when, on MonotonicNow's clock
};

}  // namespace ftune
