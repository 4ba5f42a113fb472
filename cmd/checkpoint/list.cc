// ftune checkpoint ls

#include <sys/stat.h>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/checkpoint/commands.h"
#include "cmd/checkpoint/find_checkpoint.h"

namespace ftune {
namespace {

// When the manifest, and with it the checkpoint, was written, in seconds since 1970; nothing where there is
// none.
std::optional<double> SavedAt(const std::filesystem::path& folder) {
  struct stat info = {};
  if (stat((folder / kManifestName).c_str(), &info) != 0) return std::nullopt;
  return static_cast<double>(info.st_mtim.tv_sec) + 1e-9 * static_cast<double>(info.st_mtim.tv_nsec);
}

// Of what is there, whatever the manifest says.
int64_t BytesOnDisk(const std::filesystem::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    const auto size = std::filesystem::file_size(entry->path(), ignored);
    if (!ignored) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

nlohmann::ordered_json OrNull(const std::optional<double>& number) {
  return number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(nullptr);
}

std::string Column(const std::optional<double>& number) {
  return number ? absl::StrFormat("%.4f", *number) : "-";
}

// Below the others, with what removes them.
void AddSuperseded(const NamedCheckpoints& named, CommandResult& result) {
  if (named.superseded.empty()) return;
  nlohmann::ordered_json& all = result.json["superseded"] = nlohmann::ordered_json::array();
  StrAppend(result.text, "set aside (`ftune checkpoint rm ", named.run.string(),
            " --superseded` removes them):\n");
  for (const SupersededCheckpoint& one : named.superseded) {
    const std::filesystem::path& folder = one.entry.folder;
    const int64_t bytes = BytesOnDisk(folder);
    all.push_back({{"path", folder.string()}, {"bytes", bytes}});
    StrAppend(result.text,
              absl::StrFormat("%9s  %10s  %s\n", "", HumanBytes(bytes), folder.filename().string()));
  }
}

// Also where all that a run has is set aside.
absl::StatusOr<NamedCheckpoints> ListToShow(const CheckpointOptions& options) {
  const std::string& name = options.names.front();
  if (options.step) return ListNamed(name, options.step);
  FTUNE_ASSIGN_OR_RETURN(NamedCheckpoints named, ListAllNamed(name));
  return named.entries.empty() && named.superseded.empty() ? ListNamed(name, std::nullopt) : std::move(named);
}

}  // namespace

absl::StatusOr<CommandResult> ShowCheckpointList(const CheckpointOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(const NamedCheckpoints named, ListToShow(options));
  CommandResult result;
  nlohmann::ordered_json& all = result.json["checkpoints"] = nlohmann::ordered_json::array();
  result.text = absl::StrFormat("%9s  %10s  %-19s  %9s  %9s\n", "step", "size", "saved", "loss", "eval loss");
  for (const CheckpointEntry& entry : named.entries) {
    const absl::StatusOr<Manifest> manifest = InspectCheckpoint(entry.folder);
    const std::optional<double> saved = SavedAt(entry.folder);
    const int64_t bytes = BytesOnDisk(entry.folder);
    std::optional<double> loss, eval_loss;
    bool best = false;
    std::string note;
    if (manifest.ok()) {
      const TrainerState& state = manifest->state;
      loss = state.loss;
      eval_loss = state.eval_loss;
      best = state.best_loss && state.best_step == entry.step;
      note = best ? "best" : "";
    } else {
      note = StrCat("damaged: ", std::string(manifest.status().message()));
    }
    nlohmann::ordered_json& json = all.emplace_back();
    json = {{"step", entry.step},    {"valid", manifest.ok()},       {"bytes", bytes},
            {"time", OrNull(saved)}, {"loss", OrNull(loss)},         {"eval_loss", OrNull(eval_loss)},
            {"best", best},          {"path", entry.folder.string()}};
    if (!manifest.ok()) json["error"] = std::string(manifest.status().message());
    const std::string when =
        saved ? absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixSeconds(static_cast<int64_t>(*saved)),
                                 absl::LocalTimeZone())
              : "-";
    StrAppend(result.text, absl::StrFormat("%9d  %10s  %-19s  %9s  %9s  %s", entry.step, HumanBytes(bytes),
                                           when, Column(loss), Column(eval_loss), note));
    result.text.erase(result.text.find_last_not_of(' ') + 1);
    result.text += '\n';
  }
  if (named.entries.empty()) result.text = "this run has no checkpoint but those that are set aside\n";
  if (!options.step) AddSuperseded(named, result);
  return result;
}

}  // namespace ftune
