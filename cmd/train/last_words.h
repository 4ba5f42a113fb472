// What a process says where it has to end at once: memory or a thread that the system refuses to a thread of
// its own, or where nothing may be thrown.
#pragma once

#include <string>

namespace ftune {

// From here on such an end is an error of `who` (as RunGuarded's), with its exit status, and not an abort:
// told to the process that supervises this one, or else to the user. Once, from the main thread.
void ReportWhatEndsProcess(const std::string& who, bool supervised);

}  // namespace ftune
