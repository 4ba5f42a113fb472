#include "base/error.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "absl/strings/cord.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kPayloadUrl[] = "ftune/error";

absl::StatusCode CanonicalCode(ExitCode code) {
  switch (code) {
    case ExitCode::kOk:
      return absl::StatusCode::kOk;
    case ExitCode::kUsage:
      return absl::StatusCode::kInvalidArgument;
    case ExitCode::kDoesNotFit:
      return absl::StatusCode::kResourceExhausted;
    case ExitCode::kData:
      return absl::StatusCode::kDataLoss;
    case ExitCode::kRankFailed:
      return absl::StatusCode::kAborted;
    case ExitCode::kTimeout:
      return absl::StatusCode::kDeadlineExceeded;
    case ExitCode::kNotFinite:
      return absl::StatusCode::kOutOfRange;
    case ExitCode::kPreempted:
      return absl::StatusCode::kCancelled;
  }
  std::abort();
}

std::optional<nlohmann::json> PayloadOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayloadUrl);
  if (!payload) return std::nullopt;
  return nlohmann::json::parse(std::string(*payload));
}

}  // namespace

std::string FormatError(const ErrorDetail& detail) {
  std::string text;
  if (!detail.file.empty()) {
    StrAppend(text, detail.file, ":");
    if (detail.line > 0) StrAppend(text, detail.line, ":");
    StrAppend(text, " ");
  }
  StrAppend(text, "error: ");
  if (!detail.key.empty()) StrAppend(text, detail.key, ": ");
  bool first = true;
  const auto part = [&](std::string_view lead, std::string_view body, std::string_view separator) {
    if (body.empty()) return;
    StrAppend(text, first ? "" : separator, lead, body);
    first = false;
  };
  part("", detail.message, "; ");
  part("found ", detail.found, "; ");
  part("expected ", detail.expected, ", ");
  part("", detail.hint, "; ");
  return text;
}

absl::Status UserError(ExitCode code, ErrorDetail detail) {
  absl::Status status(CanonicalCode(code), FormatError(detail));
  const nlohmann::json payload = {{"exit", static_cast<int>(code)},
                                  {"file", detail.file},
                                  {"line", detail.line},
                                  {"key", detail.key},
                                  {"what", detail.message},
                                  {"found", detail.found},
                                  {"expected", detail.expected},
                                  {"hint", detail.hint}};
  // Bytes of a broken file may stand in a message: replace what is not UTF-8 rather than throw.
  status.SetPayload(kPayloadUrl,
                    absl::Cord(payload.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return status;
}

std::optional<ErrorDetail> DetailOf(const absl::Status& status) {
  const auto payload = PayloadOf(status);
  if (!payload) return std::nullopt;
  return ErrorDetail{.file = payload->at("file"),
                     .line = payload->at("line"),
                     .key = payload->at("key"),
                     .message = payload->at("what"),
                     .found = payload->at("found"),
                     .expected = payload->at("expected"),
                     .hint = payload->at("hint")};
}

int ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return 0;
  const auto payload = PayloadOf(status);
  return payload ? payload->at("exit").get<int>() : 1;
}

}  // namespace ftune
