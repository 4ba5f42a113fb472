// What is known of a run, for a person: one screen.
#pragma once

#include <string>

#include "cmd/watch/run_status.h"

namespace ftune {

// `now`: Unix seconds.
std::string StatusText(const RunStatus& status, double now);

// What became of a run that has ended, in one line: "done after step 12 of 12".
std::string EndText(const RunStatus& status);

}  // namespace ftune
