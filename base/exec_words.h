// What exec takes. Made before a fork: between that and exec nothing may be allocated.
#pragma once

#include <string>
#include <vector>

namespace ftune {

// Of texts that outlive them, with a null at the end.
std::vector<char*> ExecPointers(std::vector<std::string>& texts);

// This process's environment with `changes`, NAME=value, in it.
std::vector<std::string> ExecEnvironment(const std::vector<std::string>& changes);

}  // namespace ftune
