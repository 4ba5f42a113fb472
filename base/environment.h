// The environment variables of this process, or those that a test plays.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ftune {

// The value of an environment variable; nothing where it is unset or empty.
using EnvironmentReader = std::function<std::optional<std::string>(const char* name)>;
EnvironmentReader ProcessEnvironment();

}  // namespace ftune
