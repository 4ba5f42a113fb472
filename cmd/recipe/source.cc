#include "cmd/recipe/source.h"

#include <unicode/utf8.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr size_t kLargestSize = 1 << 20;  // bytes

int LineAt(std::string_view text, size_t position) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + position, '\n'));
}

std::string Hex(unsigned char byte) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  return StrCat("0x", kDigits[byte >> 4], kDigits[byte & 15]);
}

// YAML allows no control characters but these, and its parser takes 0x04 for the end of the text.
bool IsForbidden(int32_t c) { return (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F; }

}  // namespace

absl::Status CheckRecipeText(std::string_view text, const std::string& file) {
  if (text.size() > kLargestSize) {
    return UsageError({.file = file,
                       .found = StrCat("more than ", kLargestSize, " bytes"),
                       .expected = "a recipe",
                       .hint = "give the recipe's own file"});
  }
  for (int32_t next = 0; next < static_cast<int32_t>(text.size());) {
    const int32_t position = next;
    int32_t c = 0;
    U8_NEXT(text.data(), next, static_cast<int32_t>(text.size()), c);
    if (c >= 0 && !IsForbidden(c)) continue;
    return UsageError({.file = file,
                       .line = LineAt(text, position),
                       .found = StrCat(c < 0 ? "the byte " : "the control character ",
                                       Hex(static_cast<unsigned char>(text[position]))),
                       .expected = "UTF-8 text",
                       .hint = "write it in UTF-8"});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadRecipeText(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (file.ok()) return std::string(file->text().substr(0, kLargestSize + 1));
  // A recipe that cannot be read is a wrong command line, not wrong data.
  std::optional<ErrorDetail> detail = DetailOf(file.status());
  return detail ? UsageError(*std::move(detail)) : file.status();
}

}  // namespace ftune
