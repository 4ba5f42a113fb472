// A status as bytes, so that another rank can report the very error: code, message, and what UserError
// attached.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace ftune {

std::string EncodeStatus(const absl::Status& status);
// OK where `bytes` are not of EncodeStatus.
absl::Status DecodeStatus(std::string_view bytes);

}  // namespace ftune
