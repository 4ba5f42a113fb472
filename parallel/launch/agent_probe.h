// Whether a host would do for a run, asked while the run goes on without it: its agent is started, says
// hello, and is not needed any more.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/descriptor.h"
#include "parallel/launch/agent_messages.h"
#include "parallel/launch/command_connector.h"
#include "parallel/launch/command_process.h"
#include "parallel/launch/frame.h"

namespace ftune {

class AgentProbe {
 public:
  // Of the program's main thread. What has not answered within `timeout` does not.
  static absl::StatusOr<AgentProbe> Start(const AgentCommand& command, absl::Duration timeout);

  // Whether all is known; never waits.
  bool Done();
  // What the agent says of its host; nothing where it did not come to that.
  const std::optional<agent::HostFacts>& facts() const { return facts_; }
  // Whether the host itself has answered, whatever became of the agent.
  bool reached() const { return reached_; }

 private:
  AgentProbe(CommandProcess process, absl::Duration timeout);
  // False where nothing comes any more.
  bool Read();
  // False where what has come is no agent's.
  bool TakeHello();

  CommandProcess process_;
  Descriptor input_, output_;  // an agent ends when its input does
  FrameReader reader_{/*awaits_begin=*/true};
  absl::Duration until_;
  bool ended_ = false;  // its output has
  bool reached_ = false;
  std::optional<agent::HostFacts> facts_;
};

}  // namespace ftune
