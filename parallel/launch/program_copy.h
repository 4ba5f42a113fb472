// Brings the running program to hosts that have none, or another one.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

// The command that has to run on a host: it takes the program from standard input, keeps it in the user's
// cache there, under its hash, and says where.
std::vector<std::string> CopyCommand();

// Runs a command a host, argv that leads to CopyCommand there, `at_once` of them at most: of the program's
// main thread. What the program loads from beside itself goes with it. → where it is on each of them, or why
// it is not.
std::vector<absl::StatusOr<std::string>> CopyProgram(const std::vector<std::vector<std::string>>& commands,
                                                     int at_once);

}  // namespace ftune
