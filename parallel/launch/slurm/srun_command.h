// A program on a node of a Slurm allocation, by srun.
#pragma once

#include <string>
#include <vector>

namespace ftune {

// argv of a command that runs `words`, a program and its arguments, once on the node, and is to it what ssh
// would be: standard input, output and error are the program's, byte by byte; it ends when that ends, with
// its exit status, or with 128 + n after signal n; when it is killed, so is the program. The program may use
// all that the job has on the node (cores, memory, devices), whatever shape of tasks the job was asked for
// with; and other programs may run there meanwhile.
std::vector<std::string> SrunCommand(const std::string& node, const std::vector<std::string>& words);

}  // namespace ftune
