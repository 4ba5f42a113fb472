#include "parallel/launch/slurm/srun_agents.h"

#include "base/strings.h"
#include "parallel/launch/slurm/node_list.h"

namespace ftune {
namespace {

// What a job's request leaves in the environment of its script and srun takes for options: it would give one
// task only a part of what there is, or contradict the options below.
constexpr const char* kShapes[] = {
    "SLURM_CPUS_PER_TASK",     "SRUN_CPUS_PER_TASK",     "SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU",
    "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_CORE",  "SLURM_TRES_PER_TASK", "SLURM_DISTRIBUTION",
    "SLURM_CPU_BIND",          "SLURM_MEM_BIND",         "SLURM_GPU_BIND",      "SLURM_EXACT",
    "SLURM_EXCLUSIVE",         "SLURM_THREADS_PER_CORE", "SLURM_HINT",
};

}  // namespace

SrunCommand SrunAgentsCommand(const SrunAgents& agents) {
  SrunCommand command = {.arguments = {"env"}, .environment = agents.environment};
  std::vector<std::string>& words = command.arguments;
  for (const char* name : kShapes) words.insert(words.end(), {"-u", name});
  const size_t nodes = agents.nodes.size();
  words.insert(words.end(),
               {"srun", StrCat("--nodes=", nodes), StrCat("--ntasks=", nodes), "--ntasks-per-node=1",
                StrCat("--nodelist=", FoldNodeList(agents.nodes)), "--distribution=block", "--cpu-bind=none",
                "--mem-bind=none",
                // Also beside a step that is about to end.
                "--overlap",
                // Whatever the job's own script was given; the values are not to be seen in a command line.
                "--export=ALL",
                // The launcher judges ends.
                "--kill-on-bad-exit=0", "--wait=0", "--no-kill", "--input=none", "--unbuffered", "--quiet",
                "--job-name=ftune", agents.program});
  words.insert(words.end(), agents.arguments.begin(), agents.arguments.end());
  return command;
}

}  // namespace ftune
