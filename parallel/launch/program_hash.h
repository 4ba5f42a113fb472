// Which program this is.
#pragma once

#include <string>

namespace ftune {

// Of this program's file: equal where the same one runs, whatever its version says. Empty where it cannot be
// read.
std::string ProgramHash();

}  // namespace ftune
