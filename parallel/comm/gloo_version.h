#pragma once

#include <string>

namespace ftune {

// Of the library that moves bytes between hosts: "gloo 0.5.0".
std::string GlooVersion();

}  // namespace ftune
