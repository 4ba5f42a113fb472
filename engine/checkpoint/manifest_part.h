// What each rank has written of a checkpoint, as the rank is told that writes the manifest.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "engine/checkpoint/manifest.h"

namespace ftune {

// The files and slices of a manifest, or why there are none.
std::string EncodePart(const Manifest& part);
std::string EncodeFailure(const absl::Status& why);

// Adds a part to the manifest. The failure that it tells of instead; an error where the parts contradict each
// other.
absl::Status AddPart(const std::string& text, Manifest& manifest);

// Whether each element of each tensor is in one slice.
absl::Status CheckComplete(const Manifest& manifest);

}  // namespace ftune
