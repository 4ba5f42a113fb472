#include "cmd/train/rank_report.h"

#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "parallel/comm/status_text.h"
#include "parallel/launch/rank_process.h"

namespace ftune {

using Json = nlohmann::ordered_json;

std::string EncodeReport(const absl::StatusOr<CommandResult>& result) {
  const Json report = result.ok()
                          ? Json{{"exit", result->exit}, {"result", result->json}, {"text", result->text}}
                          : Json{{"error", EncodeStatus(result.status())}};
  return report.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<absl::StatusOr<CommandResult>> DecodeReport(const std::string& text) {
  const Json report = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!report.is_object()) return std::nullopt;
  if (report.contains("error")) {
    return absl::StatusOr<CommandResult>(DecodeStatus(report["error"].get<std::string>()));
  }
  return CommandResult{.json = report.at("result"), .text = report.at("text"), .exit = report.at("exit")};
}

void SendReport(const absl::StatusOr<CommandResult>& result) {
  const std::string text = EncodeReport(result);
  for (std::string_view left = text; !left.empty();) {
    const ssize_t count = write(kReportDescriptor, left.data(), left.size());
    if (count < 0 && errno != EINTR) return;  // who started it is gone, and this process soon is
    if (count > 0) left.remove_prefix(static_cast<size_t>(count));
  }
}

}  // namespace ftune
