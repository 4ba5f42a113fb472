// Finds and loads ftune-arrow.so.
#pragma once

#include "absl/status/statusor.h"
#include "data/arrow/plugin_abi.h"

namespace ftune {

// Looks in the folders of the environment's FTUNE_PLUGINS (separated by colons), then beside the running
// binary. The plugin stays loaded until the process ends. An error says what to install.
absl::StatusOr<const FtuneArrowPlugin*> LoadArrowPlugin();

}  // namespace ftune
