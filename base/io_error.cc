#include "base/io_error.h"

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

std::string HintFor(int error) {
  switch (error) {
    case ENOENT:
      return "check the path";
    case EACCES:
    case EPERM:
      return "check the permissions";
    case ENOSPC:
    case EDQUOT:
      return "free some space or choose another folder";
    case EROFS:
      return "choose a folder that can be written";
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f)";
    case EIO:
      return "check the disk";
    case ENOMEM:
      return "raise the limit on memory (ulimit -v), or free some";
    default:
      return "";
  }
}

std::string Why(int error) { return std::generic_category().message(error); }

}  // namespace

absl::Status IoError(const std::filesystem::path& path, std::string_view action, int error) {
  // No fault of the file.
  const ExitCode exit = error == ENOMEM ? ExitCode::kDoesNotFit : ExitCode::kData;
  return UserError(exit, {.file = path.string(),
                          .message = StrCat("cannot ", action, ": ", Why(error)),
                          .hint = HintFor(error)});
}

bool IsDiskFull(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  return detail && (detail->message.ends_with(Why(ENOSPC)) || detail->message.ends_with(Why(EDQUOT)));
}

}  // namespace ftune
