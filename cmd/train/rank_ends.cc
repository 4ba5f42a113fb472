#include "cmd/train/rank_ends.h"

#include <sys/wait.h>

#include <charconv>
#include <csignal>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/train/rank_report.h"
#include "parallel/comm/status_text.h"

namespace ftune {
namespace {

constexpr std::string_view kRank = "rank ";

std::string KeyOf(int rank, const std::string& host) {
  return StrCat(kRank, rank, host.empty() ? "" : StrCat(" on ", host));
}

// "; it was in step 12, forward of microbatch 0", where that is known.
std::string ItWas(const Pulse& pulse) {
  const std::string place = DescribePlace(pulse);
  return place.empty() ? "" : StrCat("; it was ", place);
}

// ", as memory ran out (it had 1.2 GiB)", where it is known.
std::string WhyKilled(const RankEnd& end, const Pulse& pulse) {
  if (!end.out_of_memory) return "";
  const double gib = static_cast<double>(pulse.resident_bytes) / (1 << 30);
  return StrCat(", as memory ran out", gib > 0.0 ? absl::StrFormat(" (it had %.1f GiB)", gib) : "");
}

std::string HintOfKill(const RankEnd& end) {
  if (end.out_of_memory) {
    return "lower train.micro_batch_size or data.sequence_len, share the model out (parallel.zero), or "
           "run fewer ranks on the host";
  }
  const bool killed = WIFSIGNALED(end.wait_status) && WTERMSIG(end.wait_status) == SIGKILL;
  return killed ? "the system does so where memory runs out: `dmesg` would say it" : "";
}

// Other hosts need not have that file.
bool IsOfOwnFile(const absl::Status& error, const ErrorDetail& detail) {
  return ExitCodeOf(error) == static_cast<int>(ExitCode::kData) && !detail.file.empty() && !WasHeard(error);
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
    if (!error || (RankAtFault(end) == end.rank && !WasHeard(*error))) return &end;
    if (first == nullptr) first = &end;
  }
  return first;
}

int RankAtFault(const RankEnd& end) {
  const std::optional<absl::Status> error = ReportedError(end);
  const std::optional<ErrorDetail> detail = error ? DetailOf(*error) : std::nullopt;
  if (!detail || !MayPass(*error) || !detail->key.starts_with(kRank)) return end.rank;
  int rank = end.rank;
  std::from_chars(detail->key.data() + kRank.size(), detail->key.data() + detail->key.size(), rank);
  return rank;
}

absl::Status ErrorOfEnd(const RankEnd& end, const Pulse& pulse, const std::string& host,
                        const std::string& log, absl::Duration heartbeat_timeout) {
  ErrorDetail detail = {.key = KeyOf(end.rank, end.host)};
  const std::string see = StrCat(ItWas(pulse), "; its log is ", log);
  if (!end.lost.empty()) {
    detail.message = StrCat("its host is lost: ", end.lost, see);
    return UserError(ExitCode::kRankFailed, detail);
  }
  if (const std::optional<absl::Status> error = ReportedError(end)) {
    std::optional<ErrorDetail> reported = DetailOf(*error);
    if (!reported) return *error;
    // Ranks do not know the names by which their hosts are called here.
    if (MayPass(*error)) {
      if (reported->key.starts_with(kRank)) reported->key = KeyOf(RankAtFault(end), host);
      reported->message += ItWas(pulse);
    } else if (IsOfOwnFile(*error, *reported) && !end.host.empty()) {
      reported->file = StrCat(end.host, ":", reported->file);  // as scp has it
    }
    return UserError(static_cast<ExitCode>(ExitCodeOf(*error)), *std::move(reported));
  }
  if (end.stood_still) {
    detail.message = StrCat("it has been stopped for ", absl::FormatDuration(heartbeat_timeout),
                            ", before all ranks had met", see);
    detail.hint = StrCat("something sent SIGSTOP to its process, which was ", end.pid);
  } else {
    detail.message = StrCat("it ", DescribeEnd(end.wait_status), WhyKilled(end, pulse), see);
    detail.hint = HintOfKill(end);
  }
  return UserError(ExitCode::kRankFailed, detail);
}

absl::Status ErrorOfStandstill(absl::Duration still, std::optional<int> odd, const std::string& host,
                               const std::vector<Pulse>& pulses, const std::string& log) {
  const std::string time = absl::FormatDuration(absl::Trunc(still, absl::Seconds(1)));
  ErrorDetail detail = {.key = "launch",
                        .message = StrCat("no rank has shown anything new for ", time),
                        .hint = "raise launch.hang_timeout if a step may take as long"};
  if (odd) {
    detail.key = KeyOf(*odd, host);
    detail.message = StrCat("it stands still", pulses.size() > 1 ? " and the others wait for it" : "",
                            ": nothing new for ", time, ItWas(pulses[*odd]), "; its log is ", log);
  }
  return UserError(ExitCode::kTimeout, detail);
}

bool MayPass(const absl::Status& error) {
  const int exit = ExitCodeOf(error);
  return exit == static_cast<int>(ExitCode::kRankFailed) || exit == static_cast<int>(ExitCode::kTimeout);
}

}  // namespace ftune
