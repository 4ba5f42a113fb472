// The kinds of frames between a launcher and its agents, and what is in them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/launch/frame.h"
#include "parallel/launch/supervisor.h"

namespace ftune::agent {

// From the launcher. Questions are answered, in their order, by a frame of kAnswer.
inline constexpr char kCheck[] = "check";         // paths, folder, probe → missing, no_folder, sees_probe
inline constexpr char kServe[] = "serve";         // address, prefix, ranks, tls → port, fingerprint
inline constexpr char kReach[] = "reach";         // address, port, prefix, fingerprint → own_address, port
inline constexpr char kStart[] = "start";         // StartOrder; its bytes are the ranks' input → nothing
inline constexpr char kExamine[] = "examine";     // AgentOptions::examine's → what that says
inline constexpr char kListen[] = "listen";       // token → port, of a LinkProbeServer
inline constexpr char kMeasure[] = "measure";     // addresses, port, token → round_trip, sent, received
inline constexpr char kMirror[] = "open mirror";  // MirrorOrder → folder, inventory, continues
inline constexpr char kCollect[] = "collect";  // inventory of the launcher's; what is newer is sent → nothing
inline constexpr char kLeave[] = "leave mirror";  // nothing; what is there of it is removed → nothing
// And what is not answered.
inline constexpr char kSignal[] = "signal";      // signal, for the ranks
inline constexpr char kStop[] = "stop";          // the ranks are stopped, until
inline constexpr char kContinue[] = "continue";  // they go on
inline constexpr char kEnd[] = "end";            // a rank of another host has failed
inline constexpr char kKill[] = "kill";          // at once
inline constexpr char kRequest[] = "request";    // name, of an empty file in the mirror's folder
inline constexpr char kMet[] = "met";            // all ranks have; also from the agent that serves the store

// From an agent.
inline constexpr char kHello[] = "hello";          // HostFacts: first of all
inline constexpr char kAnswer[] = "answer";        // or: error, an encoded status
inline constexpr char kStarted[] = "started";      // rank, pid
inline constexpr char kOutput[] = "output";        // rank; bytes
inline constexpr char kStopped[] = "stopped";      // rank, pid
inline constexpr char kContinued[] = "continued";  // rank, pid
inline constexpr char kStranger[] = "stranger";    // address, which the store has refused
inline constexpr char kPulse[] = "pulse";          // rank, pulse: a Pulse
inline constexpr char kEnded[] = "ended";          // a RankEnd
inline constexpr char kAllEnded[] = "all ended";   // no rank is left on the host; or: error

// What an agent says of its host.
struct HostFacts {
  std::string version;   // of ftune
  std::string build;     // a hash of the program
  std::string identity;  // HostIdentity
  std::string name;      // as the host calls itself
  int cores = 0;
  double clock = 0.0;          // Unix seconds, when it says hello
  double skew = 0.0;           // of that, to the launcher's: known to the launcher
  std::string client_address;  // the launcher's, as the host sees it; empty where it is no SSH connection
  std::string server_address;  // its own, likewise
};

// The ranks of one host.
struct StartOrder {
  std::string folder;                                             // to start them in, where it is there
  std::vector<int> ranks;                                         // their global numbers
  std::vector<std::vector<std::string>> arguments, environments;  // of each, as RankCommand's
  SupervisorOptions supervisor;
  bool mirrors = false;  // the mirror is kept equal while they run
};

nlohmann::json Encode(const HostFacts& facts);
nlohmann::json Encode(const StartOrder& order);
nlohmann::json Encode(const RankEnd& end);
nlohmann::json Encode(const Pulse& pulse);
// An error where something is missing or of another type: the other end is another version.
absl::StatusOr<HostFacts> DecodeHostFacts(const nlohmann::json& json);
absl::StatusOr<StartOrder> DecodeStartOrder(const nlohmann::json& json);
absl::StatusOr<RankEnd> DecodeRankEnd(const nlohmann::json& json);
absl::StatusOr<Pulse> DecodePulse(const nlohmann::json& json);

}  // namespace ftune::agent
