// The library with HTTP and TLS, loaded when it is first needed.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "base/http/network.h"

namespace ftune {

// From the file libftune_network.so beside the running program, for `what` ("downloads"), which the error
// names where it is not there. It stays loaded.
absl::StatusOr<Network*> LoadNetwork(std::string_view what, std::string_view instead);

}  // namespace ftune
