// The script of a Slurm job that trains until it is done, over as many time limits as that takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

struct BatchJob {
  std::string name;
  std::string folder;  // where its output is written to, absolute
  std::string output;  // the name of that, with Slurm's patterns such as %j
  std::string working_folder;
  std::optional<std::string> partition;
  std::optional<std::string> account;
  std::optional<std::string> time;  // as Slurm writes it
  std::optional<std::string> constraint;
  int64_t nodes = 1;
  int64_t tasks_per_node = 1;  // ranks: what the job asks for, whoever starts them
  std::optional<int64_t> cpus_per_task;
  std::optional<int64_t> gpus_per_node;
  bool survives_nodes = false;     // goes on when a node fails
  std::vector<std::string> extra;  // further options, as they stand after #SBATCH
  std::vector<std::string>
      command;  // argv of a program that begins or goes on, and ends with 75 when it has more to do
};

// An error, with exit code 2, where a value cannot stand in such a script: it has a line break or another
// control character, or is no time limit.
absl::StatusOr<std::string> BatchScript(const BatchJob& job);

// The seconds of a time limit as Slurm writes it: minutes, minutes:seconds, hours:minutes:seconds,
// days-hours, and so on. Nothing where it is none; 0 where there is no limit (UNLIMITED, 0).
std::optional<int64_t> ParseTimeLimit(const std::string& text);

}  // namespace ftune
