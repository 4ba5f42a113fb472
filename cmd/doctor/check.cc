#include "cmd/doctor/check.h"

#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

std::string InWords(const absl::Status& status) {
  std::optional<ErrorDetail> detail = DetailOf(status);
  if (!detail) return std::string(status.message());
  const std::string file = detail->file.empty() ? "" : StrCat(detail->file, ": ");
  detail->file.clear();
  detail->key.clear();
  return StrCat(file, FormatError(*detail).substr(std::string_view("error: ").size()));
}

}  // namespace ftune
