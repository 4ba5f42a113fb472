// The library with HTTP and TLS, loaded when it is first needed.
#pragma once

#include "absl/status/statusor.h"
#include "base/http/network.h"

namespace ftune {

// From the file libftune_network.so beside the running program. It stays loaded.
absl::StatusOr<Network*> LoadNetwork();

}  // namespace ftune
