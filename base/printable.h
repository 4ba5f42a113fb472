// Text from elsewhere in messages.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace ftune {

// Bytes that a message shows of what somebody else has written.
inline constexpr size_t kMostShown = 60;

// With control bytes, which a terminal would obey, as \n, \r, \t and \x1b; cut with "..." where it is longer
// than `most` bytes.
std::string Printable(std::string_view text, size_t most = std::numeric_limits<size_t>::max());

}  // namespace ftune
