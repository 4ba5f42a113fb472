// Another program, run to its end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

struct ProgramEnd {
  int wait_status = 0;  // as waitpid has it
  std::string output;   // what it wrote to standard output
  std::string errors;   // and to standard error
};

// `words`: the program, looked for in PATH, and its arguments. It reads nothing, and has the environment of
// this process but for the variables whose names `drops` says true of. kNotFound where there is no such
// program.
absl::StatusOr<ProgramEnd> RunProgram(const std::vector<std::string>& words,
                                      bool (*drops)(std::string_view name) = nullptr);

}  // namespace ftune
