// One program a node of a Slurm allocation, by srun.
#pragma once

#include <string>
#include <vector>

namespace ftune {

struct SrunAgents {
  std::vector<std::string> nodes;        // of the allocation, in its order, as many as are to be used
  std::string program;                   // where it is on all of them
  std::vector<std::string> arguments;    // of the program
  std::vector<std::string> environment;  // NAME=value, for the programs alone: not to be seen by other users
};

struct SrunCommand {
  std::vector<std::string> arguments;    // argv; the program is to be looked for in PATH
  std::vector<std::string> environment;  // NAME=value, beside this process's own
};

// The program runs once on each node, where it may use all that the job has there: its cores, memory and
// devices, whatever shape of tasks the job was asked for with. It reads nothing (srun's standard input may be
// anything). A program that ends ends no other; a node that fails ends neither the step nor, if the job
// allows it (sbatch --no-kill), the job. All programs are killed when srun is, by any signal.
//
// srun tells each where it is by SLURMD_NODENAME and SLURM_NODEID, and by SLURM_LAUNCH_NODE_IPADDR at which
// address the host that srun runs on, this one, is found.
SrunCommand SrunAgentsCommand(const SrunAgents& agents);

}  // namespace ftune
