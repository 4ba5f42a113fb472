#include "cmd/plan/time_text.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "cmd/report/progress.h"

namespace ftune {
namespace {

using ClassSeconds = std::pair<double, std::string_view>;

// The longest first, without those that take no time.
std::vector<ClassSeconds> OpSecondsOf(const VirtualTimes& parts) {
  std::vector<ClassSeconds> classes;
  for (int i = 0; i < kOpClasses; ++i) {
    if (parts.ops[i] > 0) classes.emplace_back(parts.ops[i], Name(static_cast<OpClass>(i)));
  }
  std::stable_sort(classes.begin(), classes.end(),
                   [](const ClassSeconds& a, const ClassSeconds& b) { return a.first > b.first; });
  return classes;
}

std::string SecondsText(double seconds) {
  return seconds < 0.01 ? absl::StrFormat("%.3g ms", 1e3 * seconds) : absl::StrFormat("%.3g s", seconds);
}

std::string BytesText(double bytes) { return HumanBytes(static_cast<int64_t>(bytes)); }

}  // namespace

std::string TimeText(const PlanResult& plan) {
  if (!plan.time) return "";
  const StepTime& time = *plan.time;
  std::string text =
      absl::StrFormat("a step takes %s: %.4g tokens/s", SecondsText(time.seconds), plan.tokens_per_second());
  if (plan.peak_flops) {
    StrAppend(text,
              absl::StrFormat(", model FLOPs utilisation %.1f %% (causal attention, nothing recomputed)",
                              100.0 * plan.mfu()));
  }
  if (const std::optional<double> whole = plan.run_seconds()) {
    StrAppend(text, "; the run takes ", HumanDuration(*whole));
    if (plan.data->evaluations > 0) {
      StrAppend(text, ", of which ", plan.data->evaluations,
                plan.data->evaluations == 1 ? " evaluation takes " : " evaluations take ",
                HumanDuration(plan.evaluation_seconds()));
    }
  }
  std::vector<std::string> parts;
  for (const auto& [seconds, name] : OpSecondsOf(time.parts)) {
    parts.push_back(StrCat(name, " ", SecondsText(seconds)));
  }
  StrAppend(text, "\n  of the slowest rank: ", StrJoin(parts, ", "));
  if (time.parts.recomputed > 0) {
    StrAppend(text, "; of these again, for what was not kept, ", SecondsText(time.parts.recomputed));
  }
  StrAppend(text, "\n");
  if (time.parts.calls > 0) {
    StrAppend(text, "  collectives ", SecondsText(time.parts.calls), ", exposed ", SecondsText(time.exposed),
              "; a rank sends ", BytesText(time.parts.in_host_bytes), " within its host and ",
              BytesText(time.parts.network_bytes), " between hosts\n");
  }
  if (time.parts.disk > 0) {
    StrAppend(text, "  waits for its disk ", SecondsText(time.parts.disk), "\n");
  }
  if (time.schedule) StrAppend(text, absl::StrFormat("  pipeline bubble %.1f %%\n", 100.0 * time.bubble));
  return text;
}

void AddTime(const PlanResult& plan, nlohmann::ordered_json& json) {
  if (!plan.time) return;
  const StepTime& time = *plan.time;
  json["step_seconds"] = time.seconds;
  json["tokens_per_second"] = plan.tokens_per_second();
  if (plan.peak_flops) json["mfu"] = plan.mfu();
  if (const std::optional<double> whole = plan.run_seconds()) {
    json["run_seconds"] = *whole;
    json["evaluation_seconds"] = plan.evaluation_seconds();
  }
  json["exposed_seconds"] = time.exposed;
  json["bubble"] = time.bubble;
  nlohmann::ordered_json ops = nlohmann::ordered_json::object();
  for (const auto& [seconds, name] : OpSecondsOf(time.parts)) ops[std::string(name)] = seconds;
  json["op_seconds"] = std::move(ops);
  json["recomputed_seconds"] = time.parts.recomputed;
  json["collective_seconds"] = time.parts.calls;
  json["disk_seconds"] = time.parts.disk;
  json["in_host_bytes"] = time.parts.in_host_bytes;
  json["network_bytes"] = time.parts.network_bytes;
}

}  // namespace ftune
