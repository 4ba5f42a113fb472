#include "cmd/command.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

std::optional<absl::Status> CaughtError(const std::string& who) {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return UserError(ExitCode::kDoesNotFit,
                     {.key = who,
                      .message = "out of memory",
                      .hint = "lower data.sequence_len or train.micro_batch_size, set "
                              "memory.activation_checkpointing: full, or use an adapter"});
  } catch (const std::filesystem::filesystem_error& error) {
    return DataError({.file = error.path1().string(), .message = error.code().message()});
  } catch (const std::system_error& error) {  // of a thread that cannot be started
    return UserError(ExitCode::kDoesNotFit,
                     {.key = who,
                      .message = StrCat("the system refused a thread: ", error.code().message()),
                      .hint = "raise its limits (ulimit -u, -v), or lower launch.threads"});
  } catch (...) {
    return std::nullopt;
  }
}

absl::StatusOr<CommandResult> RunGuarded(const std::function<absl::StatusOr<CommandResult>()>& run,
                                         const std::string& who) {
  try {
    return run();
  } catch (const std::exception&) {
    const std::optional<absl::Status> error = CaughtError(who);
    if (!error) throw;
    return *error;
  }
}

int ReportError(const absl::Status& status, bool json) {
  const int exit = ExitCodeOf(status);
  if (json) {
    const ErrorDetail detail =
        DetailOf(status).value_or(ErrorDetail{.message = std::string(status.message())});
    const nlohmann::ordered_json object = {{"error",
                                            {{"code", absl::StatusCodeToString(status.code())},
                                             {"message", std::string(status.message())},
                                             {"file", detail.file},
                                             {"line", detail.line},
                                             {"key", detail.key},
                                             {"found", detail.found},
                                             {"expected", detail.expected},
                                             {"hint", detail.hint}}},
                                           {"exit", exit}};
    std::printf("%s\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  }
  return exit;
}

bool UseColour(std::FILE* out) { return isatty(fileno(out)) != 0 && std::getenv("NO_COLOR") == nullptr; }

}  // namespace ftune
