#include "engine/checkpoint/manifest_part.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "parallel/comm/status_text.h"

namespace ftune {
namespace {

using nlohmann::json;

json Encode(const CheckpointTensor& tensor) {
  json slices = json::array();
  for (const CheckpointSlice& slice : tensor.slices) {
    slices.push_back({slice.file, slice.offset, slice.region.begin, slice.region.size});
  }
  return {static_cast<int>(tensor.dtype), tensor.shape, std::move(slices)};
}

absl::Status Add(const json& encoded, const std::string& name, size_t first_file, CheckpointTensor& tensor) {
  const auto dtype = static_cast<DType>(encoded[0].get<int>());
  const auto shape = encoded[1].get<std::vector<int64_t>>();
  if (!tensor.slices.empty() && (tensor.dtype != dtype || tensor.shape != shape))
    return absl::InternalError(StrCat("checkpoint: ranks have different tensors under the name ", name));
  tensor.dtype = dtype;
  tensor.shape = shape;
  for (const json& slice : encoded[2]) {
    tensor.slices.push_back({first_file + slice[0].get<size_t>(), slice[1], {slice[2], slice[3]}});
  }
  return absl::OkStatus();
}

absl::Status CheckTiled(const std::string& name, const CheckpointTensor& tensor) {
  std::vector<Region> regions;
  for (const CheckpointSlice& slice : tensor.slices) regions.push_back(slice.region);
  const std::optional<std::string> wrong = WhyNotTiled(tensor.shape, regions);
  if (!wrong) return absl::OkStatus();
  return absl::InternalError(
      StrCat("checkpoint: what the ranks have written of ", name, " is not the tensor: ", *wrong));
}

}  // namespace

std::string EncodePart(const Manifest& part) {
  json files = json::array(), values = json::object(), optimizer = json::object();
  for (const CheckpointFile& file : part.files) files.push_back({file.name, file.bytes, file.xxh3});
  for (const auto& [name, tensor] : part.values) values[name] = Encode(tensor);
  for (const auto& [name, states] : part.optimizer) {
    for (const auto& [state, tensor] : states) optimizer[name][state] = Encode(tensor);
  }
  return json({{"files", std::move(files)}, {"values", std::move(values)}, {"optimizer", optimizer}}).dump();
}

std::string EncodeFailure(const absl::Status& why) { return json({{"failure", EncodeStatus(why)}}).dump(); }

absl::Status AddPart(const std::string& text, Manifest& manifest) {
  // Made by EncodePart of the same program.
  const json part = json::parse(text);
  if (part.contains("failure")) return HeardStatus(part["failure"].get<std::string>());
  const size_t first_file = manifest.files.size();
  for (const json& file : part["files"]) manifest.files.push_back({file[0], file[1], file[2]});
  for (const auto& [name, tensor] : part["values"].items()) {
    const absl::Status added = Add(tensor, name, first_file, manifest.values[name]);
    if (!added.ok()) return added;
  }
  for (const auto& [name, states] : part["optimizer"].items()) {
    for (const auto& [state, tensor] : states.items()) {
      const absl::Status added =
          Add(tensor, StrCat(name, "/", state), first_file, manifest.optimizer[name][state]);
      if (!added.ok()) return added;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckComplete(const Manifest& manifest) {
  for (const auto& [name, tensor] : manifest.values) {
    const absl::Status status = CheckTiled(name, tensor);
    if (!status.ok()) return status;
  }
  for (const auto& [name, states] : manifest.optimizer) {
    for (const auto& [state, tensor] : states) {
      const absl::Status status = CheckTiled(StrCat(name, "/", state), tensor);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace ftune
