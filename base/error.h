// Errors that a user, a file, a disk or a network can cause: one message that says what, where, what was
// expected and what to do, carried by absl::Status together with its parts (for --json) and the exit code it
// leads to.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ftune {

enum class ExitCode : int {
  kOk = 0,
  kUsage = 2,       // recipe or command line
  kDoesNotFit = 3,  // plan
  kData = 4,        // a model, dataset or tokenizer file
  kRankFailed = 5,
  kTimeout = 6,
  kNotFinite = 7,   // loss or gradient
  kPreempted = 75,  // stopped by a signal, saved
};

struct ErrorDetail {
  std::string file;     // path, or empty
  int line = 0;         // 1-based, 0 if unknown
  std::string key;      // recipe key, tensor name, flag
  std::string message;  // what is wrong, where found/expected do not say it
  std::string found;
  std::string expected;
  std::string hint;  // what to do
};

// "FILE:LINE: error: KEY: MESSAGE; found X, expected Y; HINT", each part left out where empty.
std::string FormatError(const ErrorDetail& detail);

// A status with `detail` and `code` attached, its message formatted by FormatError.
absl::Status UserError(ExitCode code, ErrorDetail detail);
inline absl::Status DataError(ErrorDetail detail) { return UserError(ExitCode::kData, std::move(detail)); }
inline absl::Status UsageError(ErrorDetail detail) { return UserError(ExitCode::kUsage, std::move(detail)); }

// What UserError attached. ExitCodeOf gives kOk for ok and 1 for a status without a code.
std::optional<ErrorDetail> DetailOf(const absl::Status& status);
int ExitCodeOf(const absl::Status& status);

}  // namespace ftune

#define FTUNE_RETURN_IF_ERROR(expr)                \
  do {                                             \
    absl::Status ftune_status_ = (expr);           \
    if (!ftune_status_.ok()) return ftune_status_; \
  } while (false)

#define FTUNE_CONCAT_INNER(a, b) a##b
#define FTUNE_CONCAT(a, b) FTUNE_CONCAT_INNER(a, b)
#define FTUNE_ASSIGN_OR_RETURN(lhs, expr)                                                                    \
  auto FTUNE_CONCAT(ftune_or_, __LINE__) = (expr);                                                           \
  if (!FTUNE_CONCAT(ftune_or_, __LINE__).ok()) return std::move(FTUNE_CONCAT(ftune_or_, __LINE__)).status(); \
  lhs = *std::move(FTUNE_CONCAT(ftune_or_, __LINE__))
