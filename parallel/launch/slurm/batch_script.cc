#include "parallel/launch/slurm/batch_script.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/shell_quote.h"
#include "base/strings.h"

namespace ftune {
namespace {

// How long before the time limit a run is told to save: so many seconds, or a part of the limit if that is
// less.
constexpr int64_t kLead = 300;
constexpr int64_t kLeadPart = 4;
constexpr int64_t kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;

bool HasControl(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
}

absl::Status WrongKey(const std::string& key, std::string_view found, std::string expected,
                      std::string hint = "") {
  return UsageError({.key = key,
                     .found = StrCat("'", Printable(found, kMostShown), "'"),
                     .expected = std::move(expected),
                     .hint = std::move(hint)});
}

// A value as sbatch reads it from a line of a script: quotes are a shell's, but a backslash counts within
// them too.
std::string SbatchQuote(std::string_view value) {
  constexpr std::string_view kSpecial = " \t'\"\\#";
  if (!value.empty() && value.find_first_of(kSpecial) == std::string_view::npos) return std::string(value);
  std::string quoted = "'";
  for (const char c : value) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// Lines of options, with the first error.
class Options {
 public:
  void Add(const char* option) { StrAppend(text_, "#SBATCH --", option, "\n"); }
  void Add(const char* option, std::string_view value, const char* key) {
    if (HasControl(value) && status_.ok()) status_ = WrongKey(key, value, "text without line breaks");
    StrAppend(text_, "#SBATCH --", option, "=", SbatchQuote(value), "\n");
  }
  void Add(const char* option, const std::optional<std::string>& value, const char* key) {
    if (value) Add(option, std::string_view(*value), key);
  }
  void Add(const char* option, std::optional<int64_t> value) {
    if (value) StrAppend(text_, "#SBATCH --", option, "=", *value, "\n");
  }
  void AddExtra(const std::string& line) {
    constexpr char kKey[] = "launch.slurm.extra";
    if ((HasControl(line) || !line.starts_with("-")) && status_.ok()) {
      status_ =
          WrongKey(kKey, line, "an option of sbatch, such as --exclusive", "write each without #SBATCH");
    }
    StrAppend(text_, "#SBATCH ", line, "\n");
  }
  absl::Status status() const { return status_; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  absl::Status status_;
};

absl::StatusOr<int64_t> LeadOf(const std::optional<std::string>& time) {
  if (!time) return kLead;
  const std::optional<int64_t> limit = ParseTimeLimit(*time);
  if (!limit) {
    return WrongKey("launch.slurm.time", *time,
                    "a time limit as Slurm writes it, such as 04:00:00 or 2-12:00:00");
  }
  return *limit == 0 ? kLead : std::clamp<int64_t>(*limit / kLeadPart, 1, kLead);
}

// The path of the job's output, in which % begins a pattern and a backslash turns all of them off.
absl::StatusOr<std::string> OutputOf(const BatchJob& job) {
  if (job.folder.find('\\') != std::string::npos) {
    return WrongKey("output_dir", job.folder,
                    "a path without backslashes, in which Slurm cannot write its output",
                    "choose another output_dir");
  }
  std::string path;
  for (const char c : job.folder) path += c == '%' ? "%%" : std::string(1, c);
  return StrCat(path, "/", job.output);
}

// `lead` is for whoever reads it.
std::string Body(const BatchJob& job, int64_t lead) {
  return StrCat("\ncd -- ", ShellQuote(job.working_folder), " || exit\n\n", ShellQuote(job.command),
                " &\nrun=$!\n",
                R"(limit=far
# Slurm sends USR1 to this script )",
                lead, R"( s before the time limit. The run then saves, and ends with status 75.
trap 'limit=near; kill -TERM "$run"' USR1
# TERM ends the job for good: the run saves, and is waited for.
trap 'kill -TERM "$run"' TERM
# A signal cuts a wait short.
while kill -0 "$run" 2>/dev/null; do wait "$run"; done
wait "$run"
status=$?
if [[ $limit == near && $status == 75 ]]; then
  echo "The time limit is near: job $SLURM_JOB_ID is queued again, to go on."
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
)");
}

}  // namespace

absl::StatusOr<std::string> BatchScript(const BatchJob& job) {
  FTUNE_ASSIGN_OR_RETURN(const int64_t lead, LeadOf(job.time));
  FTUNE_ASSIGN_OR_RETURN(const std::string output, OutputOf(job));
  Options options;
  options.Add("job-name", std::string_view(job.name), "output_dir");
  options.Add("output", std::string_view(output), "output_dir");
  options.Add("open-mode", std::string_view("append"), "");
  options.Add("partition", job.partition, "launch.slurm.partition");
  options.Add("account", job.account, "launch.slurm.account");
  options.Add("time", job.time, "launch.slurm.time");
  options.Add("constraint", job.constraint, "launch.slurm.constraint");
  options.Add("nodes", job.nodes);
  options.Add("ntasks-per-node", job.tasks_per_node);
  options.Add("cpus-per-task", job.cpus_per_task);
  options.Add("gpus-per-node", job.gpus_per_node);
  options.Add("requeue");
  if (job.survives_nodes) options.Add("no-kill");
  options.Add("signal", std::string_view(StrCat("B:USR1@", lead)), "");
  for (const std::string& line : job.extra) options.AddExtra(line);
  FTUNE_RETURN_IF_ERROR(options.status());
  return StrCat(R"(#!/bin/bash
# Trains, and goes on after each time limit until the run is done. Written by `ftune train --slurm`; sbatch submits it
# again.
)",
                options.text(), Body(job, lead));
}

std::optional<int64_t> ParseTimeLimit(const std::string& text) {
  if (text == "UNLIMITED" || text == "INFINITE") return 0;
  std::vector<int64_t> numbers;
  std::string separators;
  for (const char *next = text.data(), *const end = next + text.size();; ++next) {
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(next, end, number);
    if (error != std::errc() || number < 0 || number > kDay * 365) return std::nullopt;
    numbers.push_back(number);
    next = stop;
    if (next == end) break;
    separators += *next;
  }
  const std::vector<std::pair<std::string, std::vector<int64_t>>> forms = {
      {"", {kMinute}},
      {":", {kMinute, 1}},
      {"::", {kHour, kMinute, 1}},
      {"-", {kDay, kHour}},
      {"-:", {kDay, kHour, kMinute}},
      {"-::", {kDay, kHour, kMinute, 1}},
  };
  for (const auto& [form, units] : forms) {
    if (form != separators) continue;
    int64_t seconds = 0;
    for (size_t i = 0; i < units.size(); ++i) seconds += numbers[i] * units[i];
    return seconds;
  }
  return std::nullopt;
}

}  // namespace ftune
