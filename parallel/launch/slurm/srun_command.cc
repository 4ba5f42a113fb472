#include "parallel/launch/slurm/srun_command.h"

#include "base/strings.h"

namespace ftune {
namespace {

// What the request of a job leaves in the environment of its script, and srun takes for options: it would
// give the task a part only of what there is, or contradict the options below.
constexpr const char* kShapes[] = {
    "SLURM_CPUS_PER_TASK",
    "SRUN_CPUS_PER_TASK",
    "SLURM_GPUS_PER_TASK",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_TRES_PER_TASK",
    "SLURM_DISTRIBUTION",
    "SLURM_NTASKS_PER_SOCKET",
    "SLURM_CPU_BIND",
    "SLURM_MEM_BIND",
    "SLURM_GPU_BIND",
    "SLURM_THREADS_PER_CORE",
    "SLURM_HINT",
    "SLURM_EXACT",
    "SLURM_EXCLUSIVE",
    "SLURM_ARBITRARY_NODELIST",
    "SLURM_HOSTFILE",
    "SLURM_KILL_BAD_EXIT",
    "SLURM_WAIT",
};

}  // namespace

std::vector<std::string> SrunCommand(const std::string& node, const std::vector<std::string>& words) {
  std::vector<std::string> command = {"env"};
  for (const char* name : kShapes) command.insert(command.end(), {"-u", name});
  command.insert(command.end(),
                 {"srun", "--nodes=1", "--ntasks=1", StrCat("--nodelist=", node), "--cpu-bind=none",
                  "--overlap",     // beside other steps
                  "--export=ALL",  // whatever the job's script was given
                  "--no-kill",     // that a node fails ends nothing on others
                  "--unbuffered", "--quiet", "--job-name=ftune"});
  command.insert(command.end(), words.begin(), words.end());
  return command;
}

}  // namespace ftune
