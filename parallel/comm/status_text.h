// A status as text, for the ranks that are told of it.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ftune {

// With what UserError attached. Bytes that are not UTF-8 are replaced.
std::string EncodeStatus(const absl::Status& status);
// What EncodeStatus was given; an internal error where the text is none of its.
absl::Status DecodeStatus(std::string_view text);

// The same of what another rank has told, marked as that: it happened there, not here.
absl::Status HeardStatus(std::string_view text);
absl::Status MarkAsHeard(absl::Status status);
bool WasHeard(const absl::Status& status);

}  // namespace ftune
