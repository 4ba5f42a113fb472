#include "cmd/report/tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "base/append_whole.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/strings.h"
#include "cmd/report/tensorboard/event.h"
#include "cmd/report/tensorboard/tf_record.h"
#include "parallel/launch/host_identity.h"

namespace ftune::tensorboard {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.";

struct Curve {
  const char* key;  // of the log's line
  const char* tag;
};
constexpr std::array<Curve, 5> kTrainCurves = {{{"loss", "train/loss"},
                                                {"lr", "train/learning_rate"},
                                                {"grad_norm", "train/grad_norm"},
                                                {"tokens_per_second", "train/tokens_per_second"},
                                                {"step_seconds", "train/step_seconds"}}};
constexpr std::array<Curve, 1> kEvalCurves = {{{"eval_loss", "eval/loss"}}};

void AddScalars(std::span<const Curve> curves, const nlohmann::ordered_json& line,
                std::vector<Scalar>& scalars) {
  for (const Curve& curve : curves) {
    if (line.contains(curve.key)) scalars.push_back({curve.tag, line[curve.key].get<float>()});
  }
}

std::vector<Scalar> ScalarsOf(const std::string& event, const nlohmann::ordered_json& line) {
  std::vector<Scalar> scalars;
  if (event == "train") {
    AddScalars(kTrainCurves, line, scalars);
    for (const auto& [kind, bytes] : line.at("memory").items()) {
      scalars.push_back({StrCat("memory/", kind), bytes.get<float>()});
    }
  }
  if (event == "eval") AddScalars(kEvalCurves, line, scalars);
  return scalars;
}

// Seconds, later than those in the names of all files that are there: TensorBoard reads them in the order of
// their names, and a clock may have been set back, or a run started again within a second.
absl::StatusOr<int64_t> LatestTime(const fs::path& folder) {
  auto latest = static_cast<int64_t>(std::time(nullptr));
  FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(folder));
  for (const fs::path& entry : entries) {
    std::string name = entry.filename().string();
    int64_t time = 0;
    if (!name.starts_with(kPrefix)) continue;
    name = name.substr(kPrefix.size());
    if (absl::SimpleAtoi(name.substr(0, name.find('.')), &time)) latest = std::max(latest, time + 1);
  }
  return latest;
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const fs::path& folder, int attempt) {
  FTUNE_RETURN_IF_ERROR(MakeFolder(folder));
  FTUNE_ASSIGN_OR_RETURN(const int64_t time, LatestTime(folder));
  const fs::path path = folder / StrCat(kPrefix, time, ".", HostName(), ".", getpid(), ".", attempt);
  Descriptor file(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return IoError(path, "write", errno);
  std::unique_ptr<EventFile> events(new EventFile(std::move(file), path));
  FTUNE_RETURN_IF_ERROR(events->Write(VersionEvent(static_cast<double>(time))));
  return events;
}

absl::Status EventFile::Take(const nlohmann::ordered_json& line, const std::string& /*text*/) {
  const std::string event = line.at("event");
  const double time = line.at("time");
  const int64_t step = line.at("step");
  // What a run that goes on from a step trains again replaces what came after it; the step itself stays. One
  // that begins anew has an evaluation of step 0 again.
  if (event == "start") return Write(StartEvent(time, step == 0 ? 0 : step + 1));
  const std::vector<Scalar> scalars = ScalarsOf(event, line);
  return scalars.empty() ? absl::OkStatus() : Write(ScalarsEvent(time, step, scalars));
}

absl::Status EventFile::Write(const std::string& event) { return AppendWhole(file_, TfRecord(event), path_); }

}  // namespace ftune::tensorboard
