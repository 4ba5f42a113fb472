#include "cmd/train/rank_place.h"

#include <unistd.h>

#include "base/strings.h"
#include "cmd/train/rank_report.h"
#include "parallel/launch/rank_environment.h"

namespace ftune {

std::vector<std::string> EnvironmentOf(const RankCoordinates& at) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  return {StrCat("RANK=", at.rank),
          StrCat("LOCAL_RANK=", at.local_rank),
          StrCat("WORLD_SIZE=", at.ranks),
          StrCat("LOCAL_WORLD_SIZE=", at.local_ranks),
          StrCat("MASTER_ADDR=", at.address),
          StrCat("MASTER_PORT=", at.port),
          "TORCHELASTIC_USE_AGENT_STORE=1",
          StrCat(kStorePrefixVariable, "=", at.prefix),
          StrCat(kHostAddressVariable, "=", at.host_address),
          StrCat(kSupervisedVariable, "=", terminal ? kSupervisedOnTerminal : "1")};
}

std::vector<std::string> ArgumentsOf(const AttemptOrder& order, int64_t threads) {
  std::vector<std::string> arguments = order.arguments;
  // Their cores are a share of those that there are.
  arguments.push_back(StrCat(order.threads_given ? "" : "--derived=", "launch.threads=", threads));
  return arguments;
}

}  // namespace ftune
