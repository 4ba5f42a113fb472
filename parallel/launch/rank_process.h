// A rank as a process of its own, started by this one.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "parallel/launch/pulse_page.h"

namespace ftune {

struct RankCommand {
  std::vector<std::string> arguments;    // argv; the program is this one, by /proc/self/exe
  std::vector<std::string> environment;  // NAME=value, beside this process's own and in their place
  std::vector<int> cores;                // that it may run on; empty: as this process
  std::string input;                     // what it reads from standard input
  std::filesystem::path output;  // to whose end all goes that it writes, which nobody has to read meanwhile
};

// The file descriptors to which a rank writes what became of it, and that of its PulsePage.
inline constexpr int kReportDescriptor = 3;
inline constexpr int kPulseDescriptor = 4;

struct RankProcess {
  pid_t pid = -1;     // and its process group
  Descriptor report;  // what it writes to kReportDescriptor; closed at its end; not blocking
  PulsePage pulse;    // where it shows what it does
};

// The process dies with the thread that calls this (PR_SET_PDEATHSIG), which must be the program's main one.
// It starts with no signal blocked.
absl::StatusOr<RankProcess> StartRank(const RankCommand& command);

}  // namespace ftune
