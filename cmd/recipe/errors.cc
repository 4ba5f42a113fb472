#include "cmd/recipe/errors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kPayloadUrl[] = "ftune/recipe-errors";

nlohmann::json ToJson(const ErrorDetail& error) {
  return {error.file, error.line, error.key, error.message, error.found, error.expected, error.hint};
}

ErrorDetail FromJson(const nlohmann::json& error) {
  return {error[0], error[1], error[2], error[3], error[4], error[5], error[6]};
}

}  // namespace

absl::Status RecipeStatus(std::vector<ErrorDetail> errors) {
  if (errors.empty()) return absl::OkStatus();
  std::stable_sort(errors.begin(), errors.end(), [](const ErrorDetail& a, const ErrorDetail& b) {
    return std::pair(a.file == kCommandLine, a.line) < std::pair(b.file == kCommandLine, b.line);
  });
  std::vector<std::string> lines;
  nlohmann::json payload = nlohmann::json::array();
  for (const ErrorDetail& error : errors) {
    lines.push_back(FormatError(error));
    payload.push_back(ToJson(error));
  }
  const absl::Status first = UsageError(errors.front());
  absl::Status status(first.code(), StrJoin(lines, "\n"));
  first.ForEachPayload([&](auto url, const absl::Cord& cord) { status.SetPayload(url, cord); });
  status.SetPayload(kPayloadUrl,
                    absl::Cord(payload.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  return status;
}

std::vector<ErrorDetail> RecipeErrorsOf(const absl::Status& status) {
  std::vector<ErrorDetail> errors;
  if (const auto payload = status.GetPayload(kPayloadUrl)) {
    for (const nlohmann::json& error : nlohmann::json::parse(std::string(*payload))) {
      errors.push_back(FromJson(error));
    }
  } else if (std::optional<ErrorDetail> detail = DetailOf(status)) {
    errors.push_back(*std::move(detail));
  }
  return errors;
}

}  // namespace ftune
