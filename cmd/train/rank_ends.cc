#include "cmd/train/rank_ends.h"

#include <sys/wait.h>

#include <csignal>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/train/rank_report.h"

namespace ftune {
namespace {

// Whether the error says that another rank is to blame: then it is no first cause.
bool BlamesAnother(const absl::Status& status, int rank) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  return detail && MayPass(status) && detail->key.starts_with("rank ") &&
         detail->key != StrCat("rank ", rank);
}

}  // namespace

bool EndedWell(const RankEnd& end) {
  constexpr int kPreempted = static_cast<int>(ExitCode::kPreempted);
  const int status = end.wait_status;
  return end.lost.empty() && WIFEXITED(status) &&
         (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kPreempted);
}

int StatusOfShell(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

std::optional<absl::Status> ReportedError(const RankEnd& end) {
  const std::optional<absl::StatusOr<CommandResult>> report = DecodeReport(end.report);
  if (!report || report->ok()) return std::nullopt;
  return report->status();
}

const RankEnd* FirstCause(const std::vector<RankEnd>& ends) {
  const RankEnd* first = nullptr;
  for (const RankEnd& end : ends) {
    if (EndedWell(end) || end.was_told) continue;
    const std::optional<absl::Status> error = ReportedError(end);
    if (!error || !BlamesAnother(*error, end.rank)) return &end;
    if (first == nullptr) first = &end;
  }
  return first;
}

absl::Status ErrorOfEnd(const RankEnd& end, const std::string& log, absl::Duration heartbeat_timeout) {
  ErrorDetail detail = {.key = StrCat("rank ", end.rank)};
  if (!end.host.empty()) StrAppend(detail.key, " on ", end.host);
  const std::string see = StrCat("; its log is ", log);
  if (!end.lost.empty()) {
    detail.message = StrCat("its host is lost: ", end.lost, see);
    return UserError(ExitCode::kRankFailed, detail);
  }
  if (const std::optional<absl::Status> error = ReportedError(end)) return *error;
  if (end.stood_still) {
    detail.message = StrCat("it has been stopped for ", absl::FormatDuration(heartbeat_timeout),
                            ", before all ranks had met", see);
    detail.hint = StrCat("something sent SIGSTOP to its process, which was ", end.pid);
  } else {
    const bool killed = WIFSIGNALED(end.wait_status) && WTERMSIG(end.wait_status) == SIGKILL;
    detail.message = StrCat("it ", DescribeEnd(end.wait_status), see);
    if (killed) detail.hint = "the system does so where memory runs out: `dmesg` would say it";
  }
  return UserError(ExitCode::kRankFailed, detail);
}

bool MayPass(const absl::Status& error) {
  const int exit = ExitCodeOf(error);
  return exit == static_cast<int>(ExitCode::kRankFailed) || exit == static_cast<int>(ExitCode::kTimeout);
}

}  // namespace ftune
