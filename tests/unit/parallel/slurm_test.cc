#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/run_program.h"
#include "parallel/launch/slurm/batch_script.h"
#include "parallel/launch/slurm/node_list.h"
#include "parallel/launch/slurm/scope.h"
#include "parallel/launch/slurm/srun_command.h"
#include "parallel/launch/slurm/step_rank.h"

namespace ftune {
namespace {

using Names = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

EnvironmentReader Playing(const Variables& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

Names Expanded(const std::string& list) {
  const absl::StatusOr<Names> names = ExpandNodeList(list, "SLURM_JOB_NODELIST");
  INFO(list);
  REQUIRE(names.ok());
  return *names;
}

TEST_CASE("a list of nodes") {
  CHECK(Expanded("node1") == Names{"node1"});
  CHECK(Expanded("p[1-3,05-08],q") == Names{"p1", "p2", "p3", "p05", "p06", "p07", "p08", "q"});
  CHECK(Expanded("r[1-2]n[01-03]") == Names{"r1n01", "r1n02", "r1n03", "r2n01", "r2n02", "r2n03"});
  CHECK(Expanded("q[8-12]") == Names{"q8", "q9", "q10", "q11", "q12"});
  CHECK(Expanded("a[08-9],b[1,3]-x[2]") == Names{"a08", "a09", "b1-x2", "b3-x2"});
  CHECK(Expanded("a[1-2][3-4]") == Names{"a13", "a14", "a23", "a24"});
  CHECK(Expanded("n[098-101].example.org") ==
        Names{"n098.example.org", "n099.example.org", "n100.example.org", "n101.example.org"});
  CHECK(Expanded("c[1-65536]").size() == 65536);
  for (const char* list : {"",
                           ",",
                           "a,",
                           "a,,b",
                           "a[",
                           "a]",
                           "a[1-3",
                           "a[]",
                           "a[1,]",
                           "a[x]",
                           "a[3-1]",
                           "a[1-2]]",
                           "a[[1]]",
                           "a[1-]",
                           "a[-1]",
                           "a b",
                           "-w",
                           "a[1-99999999]",
                           "a[1-256][1-257]",
                           "$(x)",
                           "a;b",
                           "a[ 1]",
                           "a[1--2]",
                           "a[99999999999999999999]"}) {
    CAPTURE(list);
    const absl::Status status = ExpandNodeList(list, "SLURM_JOB_NODELIST").status();
    CHECK(ExitCodeOf(status) == 2);
    CHECK(DetailOf(status).value_or(ErrorDetail()).key == "SLURM_JOB_NODELIST");
  }
}

TEST_CASE("nodes as a list") {
  CHECK(FoldNodeList({}) == "");
  CHECK(FoldNodeList({"q"}) == "q");
  CHECK(FoldNodeList({"p1"}) == "p1");
  CHECK(FoldNodeList({"p08", "p09", "p10", "q"}) == "p[08-10],q");
  CHECK(FoldNodeList({"n9", "n10", "n11"}) == "n[9-11]");
  CHECK(FoldNodeList({"n099", "n100", "n1"}) == "n[099-100,1]");
  CHECK(FoldNodeList({"a1", "b1", "a2"}) == "a1,b1,a2");
  CHECK(FoldNodeList({"7", "8"}) == "7,8");
  for (const char* list :
       {"p[1-3,05-08],q", "r1n[01-03],r2n[01-03]", "a3,a[1-2]", "n-1,n-2", "x123456789012345678901"}) {
    CHECK(Expanded(FoldNodeList(Expanded(list))) == Expanded(list));
  }
}

TEST_CASE("as Slurm's own program has them") {
  if (!RunProgram({"scontrol", "--version"}).ok()) {
    MESSAGE("skipped: there is no scontrol");
    return;
  }
  // It wants a configuration, and asks nobody.
  const std::filesystem::path file = std::filesystem::temp_directory_path() / "ftune_slurm_test.conf";
  std::ofstream(file) << "ClusterName=x\nSlurmctldHost=localhost\n";
  for (const char* list :
       {"p[1-3,05-08],q", "r[1-2]n[01-03]", "q[8-12]", "a[08-9],b[1,3]-x[2]", "a[1-2][3-4]"}) {
    const absl::StatusOr<ProgramEnd> end =
        RunProgram({"env", "SLURM_CONF=" + file.string(), "scontrol", "show", "hostnames", list});
    REQUIRE(end.ok());
    std::string ours;
    for (const std::string& name : Expanded(list)) ours += name + "\n";
    INFO(end->errors);
    CHECK(end->output == ours);
  }
  std::filesystem::remove(file);
}

TEST_CASE("counts") {
  const auto counts = [](const std::string& text) { return ExpandCounts(text, "SLURM_TASKS_PER_NODE"); };
  CHECK(*counts("2(x3),1") == std::vector<int>{2, 2, 2, 1});
  CHECK(*counts("3,1(x2)") == std::vector<int>{3, 1, 1});
  CHECK(*counts("1(x2)") == std::vector<int>{1, 1});
  CHECK(*counts("4") == std::vector<int>{4});
  for (const char* text :
       {"", "x", "2(x)", "2(x3", "2x3", "2(x0)", "-1", "1,", "2(x3)1", "1(x99999999)", "(x2)", "1(2)"}) {
    CAPTURE(text);
    CHECK(ExitCodeOf(counts(text).status()) == 2);
  }
}

// As Slurm 22.05 has set them.
const Variables kTask = {
    {"SLURM_JOB_ID", "1"},
    {"SLURM_STEP_ID", "0"},
    {"SLURM_PROCID", "3"},
    {"SLURM_GTIDS", "0,3,4"},
    {"SLURM_LOCALID", "1"},
    {"SLURM_NODEID", "0"},
    {"SLURM_NTASKS", "5"},
    {"SLURM_NPROCS", "5"},
    {"SLURM_STEP_NUM_TASKS", "5"},
    {"SLURM_STEP_NODELIST", "node[1-3]"},
    {"SLURM_JOB_NODELIST", "node[1-3]"},
    {"SLURM_NODELIST", "node[1-3]"},
    {"SLURM_STEP_TASKS_PER_NODE", "3,1(x2)"},
    {"SLURM_TASKS_PER_NODE", "3,1(x2)"},
    {"SLURMD_NODENAME", "node1"},
    {"SLURM_JOB_NUM_NODES", "3"},
};
const Variables kBatch = {
    {"SLURM_JOB_ID", "2"},
    {"SLURM_PROCID", "0"},
    {"SLURM_LOCALID", "0"},
    {"SLURM_NODEID", "0"},
    {"SLURM_NTASKS", "6"},
    {"SLURM_NPROCS", "6"},
    {"SLURM_NODELIST", "node[1-3]"},
    {"SLURM_JOB_NODELIST", "node[1-3]"},
    {"SLURM_TASKS_PER_NODE", "2(x3)"},
    {"SLURMD_NODENAME", "node1"},
    {"SLURM_CPUS_PER_TASK", "2"},
};
const Variables kSalloc = {
    {"SLURM_JOB_ID", "26"},
    {"SLURM_JOB_NODELIST", "node[1-2]"},
    {"SLURM_NNODES", "2"},
    {"SLURM_TASKS_PER_NODE", "1(x2)"},
};

SlurmScope Scope(const Variables& variables, const std::optional<std::string>& enclosing = std::nullopt) {
  const absl::StatusOr<SlurmScope> scope = ReadSlurm(Playing(variables), enclosing);
  INFO(scope.status().message());
  REQUIRE(scope.ok());
  return *scope;
}

Variables With(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}
Variables Without(Variables variables, const Names& names) {
  for (const std::string& name : names) variables.erase(name);
  return variables;
}

TEST_CASE("where in Slurm") {
  using Kind = SlurmScope::Kind;
  CHECK(Scope({}).kind == Kind::kNone);
  CHECK(Scope({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).kind == Kind::kNone);

  const SlurmScope task = Scope(kTask, "1.0");
  CHECK(task.kind == Kind::kStep);
  CHECK(task.nodes == Names{"node1", "node2", "node3"});
  CHECK(task.tasks() == 5);
  CHECK(task.task == 3);
  CHECK(task.local_task == 1);
  CHECK(task.local_tasks() == 3);
  CHECK(task.tasks_here == std::vector<int>{0, 3, 4});
  CHECK(Scope(kTask).kind == Kind::kStep);  // of a process whose ancestors are not to be seen

  const SlurmScope batch = Scope(kBatch, "2.batch");
  CHECK(batch.kind == Kind::kAllocation);
  CHECK(batch.nodes == Names{"node1", "node2", "node3"});
  CHECK(batch.node == "node1");
  CHECK_FALSE(batch.is_this_node());
  CHECK(Scope(kBatch).kind == Kind::kAllocation);
  CHECK(Scope(With(kBatch, {{"SLURM_JOB_NODELIST", "node1"}})).is_this_node());
  CHECK(Scope(kBatch).restarts == 0);
  CHECK(Scope(With(kBatch, {{"SLURM_RESTART_COUNT", "2"}})).restarts == 2);

  const SlurmScope salloc = Scope(kSalloc);
  CHECK(salloc.kind == Kind::kAllocation);
  CHECK_FALSE(
      Scope(With(kSalloc, {{"SLURM_JOB_NODELIST", "node1"}})).is_this_node());  // it may be a login node
  // The shell on a node that salloc may start is a step, but no ordinary one.
  CHECK(Scope(With(kTask, {{"SLURM_STEP_ID", "4294967290"}}), "1.interactive").kind == Kind::kAllocation);
}

TEST_CASE("what a job inherits of the step that submitted it") {
  Variables inherited = kTask;
  inherited["SLURM_JOB_ID"] = "25";
  inherited["SLURM_JOB_NODELIST"] = "node1";
  const SlurmScope batch = Scope(inherited, "25.batch");
  CHECK(batch.kind == SlurmScope::Kind::kAllocation);
  CHECK(batch.nodes == Names{"node1"});
  // salloc within a step: its shell is still that step's process.
  CHECK(Scope(inherited, "1.0").kind == SlurmScope::Kind::kAllocation);
}

TEST_CASE("variables of a step that are missing or contradict each other") {
  const auto key = [](const Variables& variables) {
    const absl::Status status = ReadSlurm(Playing(variables), std::nullopt).status();
    CHECK(ExitCodeOf(status) == 2);
    return DetailOf(status).value_or(ErrorDetail()).key;
  };
  // Others say the same.
  CHECK(Scope(Without(kTask, {"SLURM_NTASKS"})).tasks() == 5);
  CHECK(Scope(Without(kTask, {"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"})).tasks() == 5);
  CHECK(Scope(Without(kTask, {"SLURM_STEP_NODELIST"})).nodes.size() == 3);
  CHECK(Scope(Without(kTask, {"SLURM_GTIDS"})).tasks_here.empty());
  CHECK(Scope(Without(kTask, {"SLURM_STEP_TASKS_PER_NODE"})).local_tasks() == 3);

  for (const char* name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"}) {
    CHECK(key(Without(kTask, {name})) == name);
    for (const char* value : {"x", "-1", "99", "1 ", ""}) {
      if (*value != 0) CHECK(key(With(kTask, {{name, value}})) == name);
    }
  }
  CHECK(key(With(kTask, {{"SLURM_STEP_NUM_TASKS", "4"}})) == "SLURM_STEP_NUM_TASKS");
  CHECK(key(With(kTask, {{"SLURM_STEP_TASKS_PER_NODE", "3,1"}})) == "SLURM_STEP_TASKS_PER_NODE");
  CHECK(key(With(kTask, {{"SLURM_STEP_NODELIST", "node["}})) == "SLURM_STEP_NODELIST");
  for (const char* tasks : {"0,5", "0,x", "0,"})
    CHECK(key(With(kTask, {{"SLURM_GTIDS", tasks}})) == "SLURM_GTIDS");
  CHECK(key(With(kTask, {{"SLURM_RESTART_COUNT", "many"}})) == "SLURM_RESTART_COUNT");
  CHECK(key(With(kTask, {{"SLURM_HET_SIZE", "2"}})) == "SLURM_HET_SIZE");
  CHECK(key(Without(kBatch, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"})) == "SLURM_JOB_NODELIST");
}

TEST_CASE("a task as a rank") {
  const auto rank_of = [](const Variables& variables) {
    absl::StatusOr<RankEnvironment> rank = RankOfStep(Scope(variables), Playing(variables));
    REQUIRE(rank.ok());
    return *rank;
  };
  const RankEnvironment rank = rank_of(kTask);
  CHECK(rank.rank == 3);
  CHECK(rank.world_size == 5);
  CHECK(rank.local_rank == 1);
  CHECK(rank.local_world_size == 3);
  CHECK(rank.address == "node1");
  CHECK(rank.port >= 10000);
  CHECK(rank.port < 30000);
  CHECK_FALSE(rank.launcher_serves);
  CHECK(rank.source == RankSource::kSlurm);
  // All tasks of a step have one port and prefix, which no other start has.
  const RankEnvironment other =
      rank_of(With(kTask, {{"SLURM_PROCID", "4"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "2"}}));
  CHECK(other.port == rank.port);
  CHECK(other.prefix == rank.prefix);
  for (const char* name : {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}) {
    CHECK(rank_of(With(kTask, {{name, "7"}})).prefix != rank.prefix);
    CHECK(rank_of(With(kTask, {{name, "7"}})).port != rank.port);
  }
  const RankEnvironment chosen =
      rank_of(With(kTask, {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}}));
  CHECK(chosen.address == "10.0.0.1");
  CHECK(chosen.port == 29500);
  const Variables wrong = With(kTask, {{"MASTER_PORT", "x"}});
  CHECK(ExitCodeOf(RankOfStep(Scope(wrong), Playing(wrong)).status()) == 2);
}

TEST_CASE("a program by srun") {
  std::string line;
  for (const std::string& word : SrunCommand("n1", {"/opt/ftune", "agent"})) line += word + " ";
  CHECK(line.starts_with("env -u "));
  CHECK(line.find(" -u SLURM_CPUS_PER_TASK ") != std::string::npos);
  CHECK(line.find(" srun --nodes=1 --ntasks=1 --nodelist=n1 ") != std::string::npos);
  CHECK(line.ends_with(" /opt/ftune agent "));
}

TEST_CASE("time limits") {
  const std::map<std::string, int64_t> limits = {
      {"90", 5400},        {"1:30", 90},          {"04:00:00", 14400}, {"2-12", 216000},
      {"2-12:30", 217800}, {"1-00:00:10", 86410}, {"UNLIMITED", 0},    {"0", 0}};
  for (const auto& [text, seconds] : limits) CHECK(ParseTimeLimit(text) == seconds);
  for (const char* text :
       {"", "x", "4h", "1:2:3:4", "1-", "-1", ":30", "1-2-3", "1:30 ", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseTimeLimit(text).has_value());
  }
}

BatchJob Job() {
  return {.name = "run",
          .folder = "/runs/run",
          .output = "slurm-%j.out",
          .working_folder = "/home/me",
          .command = {"/opt/ftune", "train", "recipe.yaml", "--resume"}};
}

TEST_CASE("the script of a job") {
  BatchJob job = Job();
  job.partition = "gpu";
  job.account = "a b";
  job.time = "00:10:00";
  job.constraint = "a100&big";
  job.nodes = 2;
  job.tasks_per_node = 4;
  job.cpus_per_task = 8;
  job.gpus_per_node = 4;
  job.extra = {"--exclusive", "--mail-user=me"};
  const absl::StatusOr<std::string> script = BatchScript(job);
  REQUIRE(script.ok());
  for (const char* line :
       {"#!/bin/bash\n", "\n#SBATCH --job-name=run\n", "\n#SBATCH --output=/runs/run/slurm-%j.out\n",
        "\n#SBATCH --open-mode=append\n", "\n#SBATCH --partition=gpu\n", "\n#SBATCH --account='a b'\n",
        "\n#SBATCH --time=00:10:00\n", "\n#SBATCH --constraint=a100&big\n", "\n#SBATCH --nodes=2\n",
        "\n#SBATCH --ntasks-per-node=4\n", "\n#SBATCH --cpus-per-task=8\n", "\n#SBATCH --gpus-per-node=4\n",
        "\n#SBATCH --requeue\n", "\n#SBATCH --signal=B:USR1@150\n",
        "\n#SBATCH --exclusive\n#SBATCH --mail-user=me\n", "\n/opt/ftune train recipe.yaml --resume &\n"}) {
    CAPTURE(line);
    CHECK(script->find(line) != std::string::npos);
  }
  CHECK(script->find("--no-kill") == std::string::npos);
  job.survives_nodes = true;
  CHECK(BatchScript(job)->find("\n#SBATCH --no-kill\n") != std::string::npos);
  CHECK(BatchScript(Job())->find("--signal=B:USR1@300\n") != std::string::npos);
  CHECK(BatchScript(Job())->find("--partition") == std::string::npos);
  BatchJob odd = Job();
  odd.folder = "/runs/50% o'clock";
  CHECK(BatchScript(odd)->find("\n#SBATCH --output='/runs/50%% o\\'clock/slurm-%j.out'\n") !=
        std::string::npos);
}

TEST_CASE("what no job's script can have") {
  const auto key = [](const BatchJob& job) {
    const absl::Status status = BatchScript(job).status();
    CHECK(ExitCodeOf(status) == 2);
    return DetailOf(status).value_or(ErrorDetail()).key;
  };
  BatchJob job = Job();
  job.account = "a\n#SBATCH --x";
  CHECK(key(job) == "launch.slurm.account");
  job = Job();
  job.time = "4h";
  CHECK(key(job) == "launch.slurm.time");
  job = Job();
  job.folder = "/a\\b";
  CHECK(key(job) == "output_dir");
  job.folder = "/a\nb";
  CHECK(key(job) == "output_dir");
  for (const char* line : {"#SBATCH --x", "x", "--a\n--b", ""}) {
    job = Job();
    job.extra = {line};
    CHECK(key(job) == "launch.slurm.extra");
  }
}

}  // namespace
}  // namespace ftune
