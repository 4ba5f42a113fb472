#include "parallel/comm/mismatch.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

absl::Status MismatchError(const std::vector<RankCall>& calls) {
  std::vector<std::string> found;
  for (const RankCall& made : calls) {
    found.push_back(StrCat(made.call.Describe(), " on rank ", made.rank));
  }
  return UserError(ExitCode::kRankFailed,
                   {.key = StrCat("rank ", calls.front().rank),
                    .message = "the ranks do not make the same calls",
                    .found = StrJoin(found, ", "),
                    .expected = "one call on all of them",
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

absl::Status TimeoutError(int missing, const std::string& call, absl::Duration waited) {
  return UserError(ExitCode::kTimeout,
                   {.key = StrCat("rank ", missing),
                    .message = StrCat("it did not come to ", call, " within ", absl::FormatDuration(waited)),
                    .hint = "look at its log and its host; if it is only slow, raise launch.step_timeout (or "
                            "launch.start_timeout, before the first step)"});
}

absl::Status NoMemberError(int missing, const std::vector<int>& members, absl::Duration waited) {
  return UserError(ExitCode::kTimeout,
                   {.key = StrCat("rank ", missing),
                    .message = StrCat("it did not come to the making of the group of ranks ",
                                      StrJoin(members, ", "), " within ", absl::FormatDuration(waited)),
                    .hint = "look at its log and its host; if it is only slow, raise launch.start_timeout"});
}

absl::Status LostRankError(int lost, const std::string& how) {
  return UserError(ExitCode::kRankFailed,
                   {.key = StrCat("rank ", lost), .message = how, .hint = "its log has the cause"});
}

}  // namespace ftune
