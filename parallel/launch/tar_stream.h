// Files as the stream that tar reads (POSIX ustar).
#pragma once

#include <cstdint>
#include <string>

namespace ftune {

// What stands before a file's bytes; these are then filled up to a multiple of kTarBlock. `name` has less
// than a hundred bytes.
std::string TarHeader(const std::string& name, int64_t size, int mode);
// At the stream's end.
std::string TarEnd();
inline constexpr int64_t kTarBlock = 512;

}  // namespace ftune
