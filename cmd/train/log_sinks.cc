#include "cmd/train/log_sinks.h"

#include <filesystem>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/report/hook/log_hook.h"
#include "cmd/report/tensorboard/event_file.h"

namespace ftune {

absl::Status AddLogSinks(const LogSection& options, const RunFolder& folder, Progress& progress,
                         RunLog& log) {
  const RunPaths& paths = folder.paths();
  if (options.tensorboard) {
    FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<tensorboard::EventFile> events,
                           tensorboard::EventFile::Create(paths.tensorboard(), folder.attempt()));
    log.AddSink(std::move(events));
  }
  if (options.hook) {
    const HookCommand command = {
        .text = *options.hook,
        .output = paths.hook_log(),
        .environment = {StrCat("FTUNE_RUN=", std::filesystem::absolute(paths.folder).string()),
                        StrCat("FTUNE_ATTEMPT=", folder.attempt())}};
    FTUNE_ASSIGN_OR_RETURN(
        std::unique_ptr<LogHook> hook,
        LogHook::Start(command, [&progress](const std::string& message) { progress.Say(message); }));
    log.AddSink(std::move(hook));
  }
  return absl::OkStatus();
}

}  // namespace ftune
