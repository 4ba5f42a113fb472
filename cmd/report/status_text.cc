#include "cmd/report/status_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "cmd/report/progress.h"
#include "cmd/report/table.h"

namespace ftune {
namespace {

constexpr double kLate = 15.0;       // seconds without a word that are worth telling
constexpr double kStill = 5.0;       // of a rank
constexpr int kMostRanksShown = 64;  // shown
constexpr size_t kLongestCall = 48;

std::string Line(const char* name, const std::string& text) {
  return text.empty() ? "" : absl::StrFormat("%-8s %s\n", name, text);
}

std::string Joined(const std::vector<std::string>& parts) {
  std::vector<std::string> present;
  for (const std::string& part : parts) {
    if (!part.empty()) present.push_back(part);
  }
  return StrJoin(present, "  ");
}

std::string Formatted(const char* name, const std::optional<double>& value, int digits) {
  return value ? absl::StrFormat("%s %.*g", name, digits, *value) : "";
}

std::string StateLine(const RunStatus& status, double now) {
  std::string text(Name(status.state));
  if (status.state == RunState::kGone) {
    text =
        StrCat("gone: its process",
               status.leader.pid > 0 ? StrCat(" (", status.leader.pid, " on ", status.leader.host, ")") : "",
               " has ended without a word");
    if (status.last_state) StrAppend(text, "; it was ", Name(*status.last_state));
  } else if (HasEnded(status.state)) {
    if (status.started > 0) StrAppend(text, " after ", HumanDuration(status.updated - status.started));
  } else {
    if (status.started > 0) StrAppend(text, " for ", HumanDuration(now - status.started));
    if (now - status.updated > kLate) {
      StrAppend(text, "; nothing was heard of it for ", HumanDuration(now - status.updated));
    }
  }
  StrAppend(text, "; attempt ", status.attempt);
  if (status.restarts > 0) {
    StrAppend(text, ", ", status.restarts, status.restarts == 1 ? " restart" : " restarts");
  }
  return text;
}

std::string StepLine(const RunStatus& status) {
  const TrainingFigures& figures = status.figures;
  std::string text = StrCat(figures.step);
  if (figures.total_steps) StrAppend(text, "/", *figures.total_steps);
  if (figures.total_steps && *figures.total_steps > 0) {
    const double share = static_cast<double>(figures.step) / static_cast<double>(*figures.total_steps);
    StrAppend(text, absl::StrFormat("  %.1f %%", 100.0 * share));
  }
  const std::string left = figures.seconds_left && !HasEnded(status.state)
                               ? StrCat(HumanDuration(*figures.seconds_left), " left")
                               : "";
  return Joined({text, figures.epoch ? absl::StrFormat("epoch %.2f", *figures.epoch) : "", left});
}

std::string LossLine(const TrainingFigures& figures) {
  return Joined({figures.loss ? absl::StrFormat("%.4f", *figures.loss) : "-",
                 figures.eval_loss ? absl::StrFormat("eval loss %.4f", *figures.eval_loss) : "",
                 Formatted("lr", figures.learning_rate, 3), Formatted("grad norm", figures.grad_norm, 3)});
}

std::string SpeedLine(const TrainingFigures& figures) {
  if (!figures.tokens_per_second) return "";
  return Joined({absl::StrFormat("%.0f tok/s", *figures.tokens_per_second),
                 figures.step_seconds ? absl::StrFormat("%.3g s a step", *figures.step_seconds) : "",
                 absl::StrFormat("%d tokens so far", figures.tokens)});
}

std::string CheckpointLine(const TrainingFigures& figures, double now) {
  if (!figures.checkpoint) return "no checkpoint";
  return StrCat("step ", figures.checkpoint->step, ", ", HumanDuration(now - figures.checkpoint->time),
                " ago: ", figures.checkpoint->path);
}

// "0-3" where they follow each other.
std::string RanksText(const std::vector<int>& ranks) {
  if (ranks.empty()) return "-";
  const bool follow = ranks.back() - ranks.front() + 1 == std::ssize(ranks);
  if (!follow) return StrJoin(ranks, ",");
  return ranks.size() == 1 ? StrCat(ranks.front()) : StrCat(ranks.front(), "-", ranks.back());
}

std::string Seconds(double seconds) { return absl::StrFormat("%.3g", seconds); }

// What a rank is at: "backward 3", "forward, waits in all_reduce(…) #17".
std::string DoingText(const Pulse& pulse) {
  std::string text = pulse.phase;
  if (pulse.micro_batch >= 0) StrAppend(text, " ", pulse.micro_batch);
  if (!pulse.call.empty()) {
    const bool cut = pulse.call.size() > kLongestCall;
    StrAppend(text, ", waits in ", pulse.call.substr(0, kLongestCall), cut ? "…" : "");
  }
  if (pulse.still_seconds >= kStill) StrAppend(text, ", for ", HumanDuration(pulse.still_seconds));
  return text;
}

std::string RankTable(const std::vector<RankStatus>& ranks) {
  const bool pulses =
      std::any_of(ranks.begin(), ranks.end(), [](const RankStatus& rank) { return rank.pulse.has_value(); });
  std::vector<TableRow> rows = {{"rank", "host", "pid", "state"}};
  if (pulses) {
    for (const char* name : {"step", "step s", "compute", "wait", "data", "memory", "doing"}) {
      rows.front().emplace_back(name);
    }
  }
  for (const RankStatus& rank : ranks) {
    if (std::ssize(rows) > kMostRanksShown) break;
    TableRow row = {StrCat(rank.rank), rank.host, rank.pid > 0 ? StrCat(rank.pid) : "-",
                    std::string(Name(rank.state))};
    if (pulses) {
      const Pulse pulse = rank.pulse.value_or(Pulse{});
      for (std::string& cell :
           TableRow{StrCat(pulse.step), Seconds(pulse.step_seconds), Seconds(pulse.compute_seconds),
                    Seconds(pulse.wait_seconds), Seconds(pulse.data_wait_seconds),
                    HumanBytes(pulse.resident_bytes), DoingText(pulse)}) {
        row.push_back(std::move(cell));
      }
    }
    rows.push_back(std::move(row));
  }
  std::string text = TableText(rows, CellsTo::kLeft);
  if (std::ssize(ranks) > kMostRanksShown) {
    StrAppend(text, "… and ", ranks.size() - kMostRanksShown, " more: --json has them all\n");
  }
  return text;
}

std::string HostTable(const std::vector<HostStatus>& hosts) {
  std::vector<TableRow> rows = {{"host", "ranks", "state"}};
  for (const HostStatus& host : hosts) rows.push_back({host.name, RanksText(host.ranks), host.state});
  return TableText(rows, CellsTo::kLeft);
}

}  // namespace

std::string StatusText(const RunStatus& status, double now) {
  std::string text =
      StrCat(Line("run", status.run), Line("state", StateLine(status, now)), Line("step", StepLine(status)),
             Line("loss", LossLine(status.figures)), Line("speed", SpeedLine(status.figures)),
             Line("saved", CheckpointLine(status.figures, now)));
  if (!status.leader.metrics.empty() && !HasEnded(status.state)) {
    StrAppend(text, Line("metrics", StrCat("http://", status.leader.metrics, "/metrics")));
  }
  if (status.error) StrAppend(text, Line("error", status.error->message));
  if (HasEnded(status.state)) return text;
  if (status.hosts.size() > 1) StrAppend(text, "\n", HostTable(status.hosts));
  if (!status.ranks.empty()) StrAppend(text, "\n", RankTable(status.ranks));
  return text;
}

std::string EndText(const RunStatus& status) {
  const TrainingFigures& figures = status.figures;
  std::string text = StrCat(Name(status.state), " after step ", figures.step);
  if (figures.total_steps) StrAppend(text, " of ", *figures.total_steps);
  if (figures.checkpoint) StrAppend(text, "; its last checkpoint is that of step ", figures.checkpoint->step);
  if (status.error) StrAppend(text, "; ", status.error->message);
  return text;
}

}  // namespace ftune
