// What the ends of a run's ranks come to: a result, or the error of the first that failed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cmd/command.h"
#include "parallel/launch/supervisor.h"

namespace ftune {

// Ended as a rank does that has done its work, or has saved it.
bool EndedWell(const RankEnd& end);
// As a shell has it.
int StatusOfShell(int wait_status);

// What a rank said of its failure, if it came to that.
std::optional<absl::Status> ReportedError(const RankEnd& end);

// The first that failed by itself; where each blames another one (which was stopped, say) or was told by one,
// the first to say so. Null where none has failed.
const RankEnd* FirstCause(const std::vector<RankEnd>& ends);

// Whom the error of a rank blames: itself, most often.
int RankAtFault(const RankEnd& end);

// The error that the failure of a rank is to the user. `log` is where its output is; `pulse` is what the one
// at fault showed last, and `host` where it is, if not on this one.
absl::Status ErrorOfEnd(const RankEnd& end, const Pulse& pulse, const std::string& host,
                        const std::string& log, absl::Duration heartbeat_timeout);

// That of ranks that have all stood still for so long; `odd` is the one that the others waited for, if that
// can be told, on `host` where it is not this one.
absl::Status ErrorOfStandstill(absl::Duration still, std::optional<int> odd, const std::string& host,
                               const std::vector<Pulse>& pulses, const std::string& log);

// Whether the same may go well another time: a rank was killed, a host was lost, ranks waited in vain. What
// is wrong with the recipe, the data or the numbers stays wrong.
bool MayPass(const absl::Status& error);

}  // namespace ftune
