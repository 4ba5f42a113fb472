#include "parallel/comm/mismatch.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

absl::Status MismatchError(int rank, const CallSignature& call, int other, const CallSignature& other_call) {
  return UserError(
      ExitCode::kRankFailed,
      {.key = StrCat("rank ", rank),
       .message = "the ranks do not make the same calls",
       .found = StrCat(call.Describe(), " on rank ", rank, ", ", other_call.Describe(), " on rank ", other),
       .expected = "one call on both",
       .hint = "this is a fault of ftune: please report it with the recipe"});
}

absl::Status CountMismatchError(int rank, int64_t taken, int other, int64_t sent) {
  return UserError(ExitCode::kRankFailed,
                   {.key = StrCat("rank ", rank),
                    .message = "the ranks do not make the same calls",
                    .found = StrCat(sent, " elements that rank ", other, " sends in an all_to_all"),
                    .expected = StrCat(taken),
                    .hint = "this is a fault of ftune: please report it with the recipe"});
}

absl::Status TimeoutError(int missing, const CallSignature& call, absl::Duration waited) {
  return UserError(
      ExitCode::kTimeout,
      {.key = StrCat("rank ", missing),
       .message = StrCat("it did not come to ", call.Describe(), " within ", absl::FormatDuration(waited)),
       .hint = "look at its log and its host; if it is only slow, raise launch.step_timeout (or "
               "launch.start_timeout, before the first step)"});
}

absl::Status LostRankError(int lost, const std::string& how) {
  return UserError(ExitCode::kRankFailed,
                   {.key = StrCat("rank ", lost), .message = how, .hint = "its log has the cause"});
}

}  // namespace ftune
