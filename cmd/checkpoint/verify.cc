// ftune checkpoint verify

#include "base/error.h"
#include "base/strings.h"
#include "cmd/checkpoint/commands.h"
#include "cmd/checkpoint/find_checkpoint.h"
#include "cmd/checkpoint/trained_names.h"
#include "cmd/model_session.h"
#include "engine/checkpoint/choose_checkpoint.h"

namespace ftune {
namespace {

struct Damage {
  std::string file;
  std::string error;
};

Damage DamageOf(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = DetailOf(status);
  return {.file = detail ? detail->file : "", .error = std::string(status.message())};
}

// All that is wrong with the files, not only with the first.
std::vector<Damage> FindDamage(const CheckpointEntry& entry, const absl::StatusOr<Manifest>& manifest,
                               const RunNames& run, Progress& progress) {
  if (!manifest.ok()) return {DamageOf(manifest.status())};
  if (manifest->step != entry.step) {
    return {DamageOf(DataError({.file = (entry.folder / kManifestName).string(),
                                .key = "step",
                                .found = StrCat(manifest->step),
                                .expected = StrCat(entry.step, ", as the folder's name says")}))};
  }
  const absl::Status complete = CheckComplete(*manifest, run, (entry.folder / kManifestName).string());
  const CheckOptions check = {
      .threads = CpuCores(), .on_progress = [&](int64_t done, int64_t total) {
        progress.Passing(StrCat("step ", entry.step, ": ", HumanBytes(done), " of ", HumanBytes(total)));
      }};
  std::vector<Damage> found;
  if (!complete.ok()) found.push_back(DamageOf(complete));
  if (CheckFiles(entry.folder, *manifest, check).ok()) return found;
  for (const CheckpointFile& file : manifest->files) {
    const absl::Status status = CheckHash(entry.folder, file);
    if (!status.ok()) found.push_back(DamageOf(status));
  }
  return found;
}

// Damaged files are passed over; at a checkpoint that needs another ftune, or lacks a parameter, a run that
// is not told where to go on from stops.
std::string StepOption(const std::vector<CheckpointEntry>& entries, int64_t whole) {
  return entries.front().step == whole ? "" : StrCat(" --step ", whole);
}

nlohmann::ordered_json ToJson(const std::vector<Damage>& damage) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Damage& one : damage) all.push_back({{"file", one.file}, {"error", one.error}});
  return all;
}

}  // namespace

absl::StatusOr<CommandResult> VerifyCheckpoints(const CheckpointOptions& options, Progress& progress) {
  FTUNE_ASSIGN_OR_RETURN(const NamedCheckpoints named, ListNamed(options.names.front(), options.step));
  // With --step too the others of the run tell what there has to be.
  FTUNE_ASSIGN_OR_RETURN(const NamedCheckpoints of_run, ListNamed(options.names.front(), std::nullopt));
  const RunNames run = NamesInRun(of_run.entries);
  CommandResult result;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::optional<int64_t> newest_whole;
  bool damaged = false;
  for (const CheckpointEntry& entry : named.entries) {
    const absl::StatusOr<Manifest> manifest = ReadManifest(entry.folder);  // each tensor's cover too
    const std::vector<Damage> damage = FindDamage(entry, manifest, run, progress);
    const int64_t bytes = manifest.ok() ? manifest->bytes() : 0;
    const int64_t files = manifest.ok() ? std::ssize(manifest->files) : 0;
    all.push_back({{"step", entry.step},
                   {"valid", damage.empty()},
                   {"bytes", bytes},
                   {"path", entry.folder.string()},
                   {"damaged", ToJson(damage)}});
    if (damage.empty()) {
      if (!newest_whole) newest_whole = entry.step;
      StrAppend(result.text, "step ", entry.step, ": whole (", files, " files, ", HumanBytes(bytes), ")\n");
    } else {
      damaged = true;
      for (const Damage& one : damage)
        StrAppend(result.text, "step ", entry.step, ": damaged: ", one.error, "\n");
    }
  }
  result.json = {{"checkpoints", std::move(all)}, {"resumes_from", nullptr}};
  if (newest_whole) result.json["resumes_from"] = *newest_whole;
  if (damaged) {
    result.exit = static_cast<int>(ExitCode::kData);
    if (named.run.empty()) {
      StrAppend(result.text, "it cannot be used\n");
    } else if (newest_whole) {
      StrAppend(result.text, "the run can go on from step ", *newest_whole, ": ftune resume ",
                named.run.string(), StepOption(named.entries, *newest_whole), "\n");
    } else if (!options.step) {
      StrAppend(result.text, "none is whole: the run cannot go on\n");
    }
  }
  result.json["exit"] = result.exit;
  return result;
}

}  // namespace ftune
