// All of standard input as text.
#pragma once

#include <string>

namespace ftune {

std::string ReadStandardInput();

}  // namespace ftune
