// A name that nobody else has, and that cannot be guessed.
#pragma once

#include <string>

namespace ftune {

// 128 random bits in hexadecimal digits.
std::string RandomToken();

}  // namespace ftune
