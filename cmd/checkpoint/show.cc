// ftune checkpoint show

#include <map>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/checkpoint/commands.h"
#include "cmd/checkpoint/find_checkpoint.h"

namespace ftune {
namespace {

constexpr char kValues[] = "values";

struct Total {
  int64_t tensors = 0, elements = 0, bytes = 0;

  void Add(const CheckpointTensor& tensor) {
    ++tensors;
    elements += WholeOf(tensor.shape).elements();
    bytes += tensor.bytes();
  }
};

// "exp_avg" of "exp_avg@tensor=1/2".
std::string KindOf(const std::string& state) { return state.substr(0, state.find('@')); }

class Contents {
 public:
  explicit Contents(const Manifest& manifest) {
    for (const auto& [name, tensor] : manifest.values) Add(kValues, name, "", tensor);
    for (const auto& [name, states] : manifest.optimizer) {
      for (const auto& [state, tensor] : states) Add(KindOf(state), name, state, tensor);
    }
  }

  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  std::string lines;

  nlohmann::ordered_json Totals() const {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const auto& [kind, total] : totals_) {
      json[kind] = {{"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
    }
    return json;
  }
  std::string TotalLines() const {
    std::string text;
    for (const auto& [kind, total] : totals_) {
      StrAppend(text, absl::StrFormat("%-12s  %5d tensors  %14d elements  %10s\n", kind, total.tensors,
                                      total.elements, HumanBytes(total.bytes)));
    }
    return text;
  }

 private:
  void Add(const std::string& kind, const std::string& name, const std::string& state,
           const CheckpointTensor& tensor) {
    totals_[kind].Add(tensor);
    nlohmann::ordered_json json = {{"name", name}};
    if (!state.empty()) json["state"] = state;
    json.update({{"dtype", SafetensorsName(tensor.dtype)},
                 {"shape", tensor.shape},
                 {"slices", tensor.slices.size()},
                 {"bytes", tensor.bytes()}});
    tensors.push_back(std::move(json));
    StrAppend(lines, absl::StrFormat("%-4s  %-16s  %3d %s  %s\n", std::string(SafetensorsName(tensor.dtype)),
                                     StrCat("[", StrJoin(tensor.shape, ", "), "]"), tensor.slices.size(),
                                     tensor.slices.size() == 1 ? "slice " : "slices",
                                     state.empty() ? name : StrCat(name, ": ", state)));
  }

  std::map<std::string, Total> totals_;
};

std::string DescribeState(const Manifest& manifest) {
  const TrainerState& state = manifest.state;
  std::string text = absl::StrFormat("step %d, epoch %.2f; %d updates of the optimizer", manifest.step,
                                     state.epoch, state.updates);
  if (state.skipped > 0) StrAppend(text, ", ", state.skipped, " skipped");
  if (state.loss) StrAppend(text, absl::StrFormat("; loss %.4f", *state.loss));
  if (state.eval_loss) StrAppend(text, absl::StrFormat(", eval loss %.4f", *state.eval_loss));
  if (state.best_loss) {
    StrAppend(text, absl::StrFormat(", the best %.4f at step %d", *state.best_loss, state.best_step));
  }
  StrAppend(text,
            absl::StrFormat("\nnext: batch %d of epoch %d", state.position.batch, state.position.epoch));
  if (state.position.row > 0) StrAppend(text, ", from row ", state.position.row, " on");
  if (state.loss_scale) StrAppend(text, absl::StrFormat("; loss scale %g", state.loss_scale->scale));
  return text;
}

}  // namespace

absl::StatusOr<CommandResult> ShowCheckpoint(const CheckpointOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(const NamedCheckpoints named, ListNamed(options.names.front(), options.step));
  const CheckpointEntry& entry = named.entries.front();
  FTUNE_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(entry.folder));
  const Contents contents(manifest);
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const CheckpointFile& file : manifest.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}});
  CommandResult result{.json = {{"step", manifest.step},
                                {"path", entry.folder.string()},
                                {"bytes", manifest.bytes()},
                                {"state", ToJson(manifest.state)},
                                {"model", manifest.model},
                                {"seed", manifest.seed},
                                {"mesh", manifest.mesh},
                                {"files", std::move(files)},
                                {"totals", contents.Totals()},
                                {"tensors", contents.tensors}}};
  result.text = StrCat(entry.folder.string(), "\n", DescribeState(manifest), "\nseed ", manifest.seed,
                       ", model ", manifest.model.empty() ? "unknown" : manifest.model,
                       ", written by the mesh ", manifest.mesh.dump(), "\n", manifest.files.size(),
                       " files, ", HumanBytes(manifest.bytes()), "\n", contents.TotalLines(), contents.lines);
  return result;
}

}  // namespace ftune
