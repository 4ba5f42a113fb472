#include "parallel/comm/status_text.h"

#include <nlohmann/json.hpp>

#include "absl/strings/cord.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kHeard[] = "ftune/heard";

}  // namespace

std::string EncodeStatus(const absl::Status& status) {
  nlohmann::json payloads = nlohmann::json::object();
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    payloads[std::string(url)] = std::string(payload);
  });
  const nlohmann::json text = {{"code", static_cast<int>(status.code())},
                               {"message", std::string(status.message())},
                               {"payloads", payloads}};
  return text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::Status DecodeStatus(std::string_view text) {
  const nlohmann::json parts = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parts.is_object() || !parts.contains("code") || !parts.contains("message") ||
      !parts.contains("payloads")) {
    return absl::InternalError(StrCat("a rank told of an error that cannot be read: ", text));
  }
  absl::Status status(static_cast<absl::StatusCode>(parts["code"].get<int>()),
                      parts["message"].get<std::string>());
  for (const auto& [url, payload] : parts["payloads"].items()) {
    status.SetPayload(url, absl::Cord(payload.get<std::string>()));
  }
  return status;
}

absl::Status HeardStatus(std::string_view text) { return MarkAsHeard(DecodeStatus(text)); }

absl::Status MarkAsHeard(absl::Status status) {
  status.SetPayload(kHeard, absl::Cord());
  return status;
}

bool WasHeard(const absl::Status& status) { return status.GetPayload(kHeard).has_value(); }

}  // namespace ftune
