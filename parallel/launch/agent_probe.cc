#include "parallel/launch/agent_probe.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/monotonic_clock.h"

namespace ftune {
namespace {

constexpr int kNotReached = 255;  // the exit status of an ssh that has not come to run the command

}  // namespace

absl::StatusOr<AgentProbe> AgentProbe::Start(const AgentCommand& command, absl::Duration timeout) {
  FTUNE_ASSIGN_OR_RETURN(CommandProcess process, CommandProcess::Start(command.words));
  return AgentProbe(std::move(process), timeout);
}

AgentProbe::AgentProbe(CommandProcess process, absl::Duration timeout)
    : process_(std::move(process)),
      input_(process_.TakeInput()),
      output_(process_.TakeOutput()),
      until_(MonotonicNow() + timeout) {
  fcntl(output_.get(), F_SETFL, O_NONBLOCK);
}

bool AgentProbe::Read() {
  char bytes[4096];
  while (true) {
    const ssize_t count = read(output_.get(), bytes, sizeof(bytes));
    if (count > 0) {
      reader_.Add({bytes, static_cast<size_t>(count)});
    } else if (count == 0 || errno != EINTR) {
      return count < 0 && errno == EAGAIN;
    }
  }
}

bool AgentProbe::TakeHello() {
  while (true) {
    const absl::StatusOr<std::optional<Frame>> frame = reader_.Next();
    if (!frame.ok()) return false;
    if (!*frame) return true;
    if ((*frame)->kind != agent::kHello) continue;
    absl::StatusOr<agent::HostFacts> facts = agent::DecodeHostFacts((*frame)->facts);
    if (facts.ok()) facts_ = *std::move(facts);
    return facts.ok();
  }
}

bool AgentProbe::Done() {
  if (!ended_) {
    const bool more = Read();
    ended_ = !TakeHello() || !more;
  }
  reached_ = facts_.has_value();
  if (facts_ || MonotonicNow() >= until_) return true;
  if (!ended_) return false;
  const std::optional<int> status = process_.Wait(absl::ZeroDuration());
  if (!status) return false;
  reached_ = WIFEXITED(*status) && WEXITSTATUS(*status) != kNotReached;
  return true;
}

}  // namespace ftune
