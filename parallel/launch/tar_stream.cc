#include "parallel/launch/tar_stream.h"

#include <numeric>

#include "absl/strings/str_format.h"

namespace ftune {
namespace {

// Where a header has its fields.
constexpr size_t kMode = 100, kOwner = 108, kGroup = 116, kSize = 124, kTime = 136, kSum = 148, kType = 156,
                 kMagic = 257;

}  // namespace

std::string TarHeader(const std::string& name, int64_t size, int mode) {
  std::string header(kTarBlock, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  put(0, name);
  put(kMode, absl::StrFormat("%07o", mode));
  put(kOwner, "0000000");
  put(kGroup, "0000000");
  put(kSize, absl::StrFormat("%011o", size));
  put(kTime, "00000000000");
  put(kType, "0");
  put(kMagic, std::string("ustar\00000", 8));
  // The sum is that of a header with blanks in its place.
  put(kSum, "        ");
  const int sum = std::accumulate(header.begin(), header.end(), 0,
                                  [](int sum, char c) { return sum + static_cast<unsigned char>(c); });
  put(kSum, absl::StrFormat("%06o", sum) + std::string("\0 ", 2));
  return header;
}

std::string TarEnd() { return std::string(2 * kTarBlock, '\0'); }

}  // namespace ftune
