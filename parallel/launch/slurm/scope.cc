#include "parallel/launch/slurm/scope.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/launch/slurm/node_list.h"

namespace ftune {
namespace {

constexpr int kMostTasks = 1000000;
// Numbers above are those of special steps, of which the shell that salloc starts on a node is one: it may
// start steps on the whole allocation.
constexpr int64_t kMostStep = 0xfffffff0;

absl::Status WrongVariable(const char* name, std::string found, std::string expected) {
  return UsageError(
      {.file = "environment",
       .key = name,
       .found = std::move(found),
       .expected = std::move(expected),
       .hint = "start ftune by srun, by sbatch or in salloc's shell, with the variables that Slurm sets"});
}

absl::StatusOr<std::optional<int>> ReadInteger(const EnvironmentReader& environment, const char* name,
                                               int most) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::optional<int>();
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error == std::errc() && stop == end && value >= 0 && value <= most) return std::optional(value);
  return WrongVariable(name, StrCat("'", *text, "'"), StrCat("an integer from 0 to ", most));
}

absl::StatusOr<int> RequireInteger(const EnvironmentReader& environment, const char* name, int limit,
                                   const std::string& limit_name) {
  FTUNE_ASSIGN_OR_RETURN(const std::optional<int> value, ReadInteger(environment, name, kMostTasks));
  if (!value) return WrongVariable(name, "nothing, in a step", "the number of this task");
  if (*value < limit) return *value;
  return WrongVariable(name, StrCat(*value), StrCat("below ", limit_name, ", which is ", limit));
}

// Of the variables that are names of the same thing, the first that is set.
struct Found {
  const char* name;
  std::string text;
};
std::optional<Found> FirstOf(const EnvironmentReader& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::optional<std::string> text = environment(name)) return Found{name, *std::move(text)};
  }
  return std::nullopt;
}

absl::Status ReadNodes(const EnvironmentReader& environment, std::initializer_list<const char*> names,
                       SlurmScope& scope) {
  const std::optional<Found> list = FirstOf(environment, names);
  if (!list) return WrongVariable(*names.begin(), "nothing, in a job", "the list of its nodes");
  FTUNE_ASSIGN_OR_RETURN(scope.nodes, ExpandNodeList(list->text, list->name));
  return absl::OkStatus();
}

// The numbers of a step that is none of the special ones.
std::optional<std::string> OrdinaryStep(const EnvironmentReader& environment) {
  const std::optional<Found> step = FirstOf(environment, {"SLURM_STEP_ID", "SLURM_STEPID"});
  if (!step) return std::nullopt;
  int64_t number = 0;
  const char* const end = step->text.data() + step->text.size();
  const auto [stop, error] = std::from_chars(step->text.data(), end, number);
  const bool ordinary = error == std::errc() && stop == end && number >= 0 && number < kMostStep;
  return ordinary ? std::optional(step->text) : std::nullopt;
}

absl::Status ReadTasksHere(const EnvironmentReader& environment, SlurmScope& scope) {
  constexpr char kTasks[] = "SLURM_GTIDS";
  const std::optional<std::string> text = environment(kTasks);
  if (!text) return absl::OkStatus();
  for (const std::string& number : std::vector<std::string>(absl::StrSplit(*text, ','))) {
    int task = 0;
    if (!absl::SimpleAtoi(number, &task) || task < 0 || task >= scope.tasks()) {
      return WrongVariable(kTasks, StrCat("'", *text, "'"),
                           StrCat("numbers below ", scope.tasks(), ", with commas between them"));
    }
    scope.tasks_here.push_back(task);
  }
  return absl::OkStatus();
}

absl::Status ReadStep(const EnvironmentReader& environment, SlurmScope& scope) {
  FTUNE_RETURN_IF_ERROR(
      ReadNodes(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}, scope));
  const std::optional<Found> per_node =
      FirstOf(environment, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (!per_node)
    return WrongVariable("SLURM_STEP_TASKS_PER_NODE", "nothing, in a step",
                         "the number of tasks of each node");
  FTUNE_ASSIGN_OR_RETURN(scope.tasks_per_node, ExpandCounts(per_node->text, per_node->name));
  if (scope.tasks_per_node.size() != scope.nodes.size()) {
    return WrongVariable(per_node->name,
                         StrCat("'", per_node->text, "', for ", scope.tasks_per_node.size(), " nodes"),
                         StrCat("a number for each of the ", scope.nodes.size(), " nodes of the step"));
  }
  // May be absent, and then follows from the others.
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}) {
    FTUNE_ASSIGN_OR_RETURN(const std::optional<int> tasks, ReadInteger(environment, name, kMostTasks));
    if (!tasks) continue;
    if (*tasks == scope.tasks()) break;
    return WrongVariable(name, StrCat(*tasks),
                         StrCat(scope.tasks(), ", the sum of ", per_node->name, " '", per_node->text, "'"));
  }
  FTUNE_ASSIGN_OR_RETURN(scope.task,
                         RequireInteger(environment, "SLURM_PROCID", scope.tasks(), "the number of tasks"));
  const int nodes = static_cast<int>(scope.nodes.size());
  FTUNE_ASSIGN_OR_RETURN(scope.node_number,
                         RequireInteger(environment, "SLURM_NODEID", nodes, "the number of nodes"));
  FTUNE_ASSIGN_OR_RETURN(scope.local_task, RequireInteger(environment, "SLURM_LOCALID", scope.local_tasks(),
                                                          "the number of this node's tasks"));
  return ReadTasksHere(environment, scope);
}

// Of a batch script, and of another job's step, the variables of a step are inherited.
bool IsOrdinaryStepOf(const std::string& enclosing, const std::string& job) {
  return enclosing.starts_with(StrCat(job, ".")) && !enclosing.ends_with(".batch");
}

}  // namespace

int SlurmScope::tasks() const { return std::accumulate(tasks_per_node.begin(), tasks_per_node.end(), 0); }

absl::StatusOr<SlurmScope> ReadSlurm(const EnvironmentReader& environment,
                                     const std::optional<std::string>& enclosing) {
  SlurmScope scope;
  const std::optional<Found> job = FirstOf(environment, {"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) return scope;
  scope.job = job->text;
  scope.node = environment("SLURMD_NODENAME").value_or("");
  FTUNE_ASSIGN_OR_RETURN(const std::optional<int> restarts,
                         ReadInteger(environment, "SLURM_RESTART_COUNT", kMostTasks));
  scope.restarts = restarts.value_or(0);
  if (environment("SLURM_HET_SIZE")) {
    return WrongVariable("SLURM_HET_SIZE", "a heterogeneous job",
                         "a job whose nodes are all of one component");
  }
  const std::optional<std::string> step =
      enclosing && !IsOrdinaryStepOf(*enclosing, scope.job) ? std::nullopt : OrdinaryStep(environment);
  if (step) {
    scope.kind = SlurmScope::Kind::kStep;
    scope.step = *step;
    FTUNE_RETURN_IF_ERROR(ReadStep(environment, scope));
    return scope;
  }
  scope.kind = SlurmScope::Kind::kAllocation;
  FTUNE_RETURN_IF_ERROR(ReadNodes(environment, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"}, scope));
  return scope;
}

}  // namespace ftune
