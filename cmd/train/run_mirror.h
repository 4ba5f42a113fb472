// The run's folder where the first rank's host does not have it: there it is a mirror, to which that rank
// writes and from which all comes here.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "cmd/run_folder.h"
#include "cmd/train/rank_output.h"
#include "parallel/launch/agents.h"
#include "parallel/launch/mirror/mirror_receiver.h"
#include "parallel/launch/mirror/mirror_sender.h"

namespace ftune {

// Of one attempt. Of the program's main thread.
class RunMirror {
 public:
  // Of the folder here, which this process has taken, on a host that has an agent. `agents` outlives it.
  RunMirror(Agents& agents, int host, const RunPaths& paths);
  ~RunMirror();
  RunMirror(const RunMirror&) = delete;
  RunMirror& operator=(const RunMirror&) = delete;

  // Before an attempt of a run that goes on: takes what its mirror there has and this folder has not, where
  // that came after what is here, as after a launcher that was killed.
  absl::Status Collect();
  // Finds a place for it there. Of a run that goes on it then has all that is here; of one that begins
  // nothing, and what is here stays until the first rank has begun.
  absl::Status Prepare(bool goes_on);
  // Where it is on its host.
  const std::string& folder() const { return folder_; }

  // While ranks run: passes on what somebody asks for here, and tells what could not be written.
  void OnTick(RankOutput& output);
  // When they have ended: an error where not all of what they wrote is here.
  absl::Status Finish() const;
  // Nothing is left of it there: the run is done, and all is here.
  void Leave();

 private:
  // → the agent's answer.
  absl::StatusOr<nlohmann::json> Open(bool begins);
  void StartReceiving();
  absl::Status Fill(const nlohmann::json& inventory);
  void Take(const Frame& frame);

  Agents& agents_;
  int host_;
  RunPaths paths_;
  std::string folder_;
  std::unique_ptr<MirrorSender> sender_;      // to it, before ranks run
  std::unique_ptr<MirrorReceiver> receiver_;  // from it
};

}  // namespace ftune
