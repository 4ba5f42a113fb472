#include "engine/checkpoint/manifest.h"

#include <charconv>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/json_file.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "base/tensor_bytes.h"
#include "base/xxh3_stream.h"

namespace ftune {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kFormat[] = "ftune checkpoint";
constexpr int64_t kVersion = 1;

ordered_json ToJson(const CheckpointTensor& tensor, const std::vector<CheckpointFile>& files) {
  ordered_json slices = ordered_json::array();
  for (const CheckpointSlice& slice : tensor.slices) {
    slices.push_back({{"file", files[slice.file].name},
                      {"offset", slice.offset},
                      {"begin", slice.region.begin},
                      {"size", slice.region.size}});
  }
  return {{"dtype", SafetensorsName(tensor.dtype)}, {"shape", tensor.shape}, {"slices", std::move(slices)}};
}

template <class T>
ordered_json OrNull(const std::optional<T>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

std::string Text(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// A line for each entry of the object and for each of theirs: people look at it, and it may have many.
std::string Lines(const ordered_json& root) {
  std::vector<std::string> entries;
  for (const auto& [key, value] : root.items()) {
    std::string text = Text(value);
    if (value.is_object() && !value.empty()) {
      std::vector<std::string> inner;
      for (const auto& [name, item] : value.items())
        inner.push_back(StrCat("  ", Text(name), ": ", Text(item)));
      text = StrCat("{\n", StrJoin(inner, ",\n"), "\n }");
    }
    entries.push_back(StrCat(" ", Text(key), ": ", text));
  }
  return StrCat("{\n", StrJoin(entries, ",\n"), "\n}\n");
}

std::string Hex(uint64_t value) { return absl::StrFormat("%016x", value); }

// Of the text itself, with zeros in the place of the hash.
constexpr std::string_view kSealKey = "xxh3";
constexpr std::string_view kNoSeal = "0000000000000000";

std::string SealOf(std::string_view text, size_t at) {
  Xxh3Stream hash;
  hash.Add(text.substr(0, at));
  hash.Add(kNoSeal);
  hash.Add(text.substr(at + kNoSeal.size()));
  return Hex(hash.Digest64());
}

// Reads a manifest's JSON; each error names the file and the key.
class ManifestReader {
 public:
  explicit ManifestReader(const std::filesystem::path& folder) : file_((folder / kManifestName).string()) {}

  absl::StatusOr<Manifest> ReadFile() {
    FTUNE_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(file_));
    return Read(mapped.text());
  }
  absl::StatusOr<Manifest> Read(std::string_view text) {
    FTUNE_ASSIGN_OR_RETURN(const json root, ParseJson(text, file_, {.reject_duplicate_keys = true}));
    if (!root.is_object()) return Bad("", Excerpt(root), "a JSON object");
    FTUNE_RETURN_IF_ERROR(CheckSeal(root, text));
    FTUNE_RETURN_IF_ERROR(CheckVersion(root));
    Manifest manifest;
    FTUNE_ASSIGN_OR_RETURN(manifest.step, Count(root, "step"));
    FTUNE_ASSIGN_OR_RETURN(manifest.recipe, RequiredField<std::string>(root, "recipe", file_));
    FTUNE_ASSIGN_OR_RETURN(manifest.model, RequiredField<std::string>(root, "model", file_));
    FTUNE_ASSIGN_OR_RETURN(manifest.data, FieldOr<std::string>(root, "data", "", file_));
    FTUNE_ASSIGN_OR_RETURN(manifest.adapter, FieldOr<std::string>(root, "adapter", "", file_));
    const auto seed = root.find("seed");
    if (seed == root.end() || !seed->is_number_unsigned())
      return Bad("seed", seed == root.end() ? "nothing" : Excerpt(*seed), "a whole number, 0 or more");
    manifest.seed = seed->get<uint64_t>();
    FTUNE_ASSIGN_OR_RETURN(const json* state, Object(root, "state"));
    FTUNE_ASSIGN_OR_RETURN(manifest.state, ReadState(*state));
    if (manifest.state.position.step != manifest.step)
      return Bad("state.position.step", StrCat(manifest.state.position.step), StrCat(manifest.step));
    if (root.contains("mesh")) manifest.mesh = root["mesh"];
    FTUNE_RETURN_IF_ERROR(ReadFiles(root, manifest));
    FTUNE_ASSIGN_OR_RETURN(const json* values, Object(root, "values"));
    for (const auto& [name, value] : values->items()) {
      FTUNE_ASSIGN_OR_RETURN(manifest.values[name], ReadTensor(value, name, manifest));
    }
    FTUNE_ASSIGN_OR_RETURN(const json* optimizer, Object(root, "optimizer"));
    for (const auto& [name, states] : optimizer->items()) {
      if (!states.is_object()) return Bad(StrCat("optimizer.", name), Excerpt(states), "an object");
      for (const auto& [key, value] : states.items()) {
        FTUNE_ASSIGN_OR_RETURN(manifest.optimizer[name][key],
                               ReadTensor(value, StrCat(name, ": ", key), manifest));
      }
    }
    return manifest;
  }

  absl::Status Bad(const std::string& key, const std::string& found, const std::string& expected) const {
    return DataError({.file = file_, .key = key, .found = found, .expected = expected});
  }

  // One without has been made or edited by hand.
  absl::Status CheckSeal(const json& root, std::string_view text) const {
    if (!root.contains(kSealKey)) return absl::OkStatus();
    FTUNE_ASSIGN_OR_RETURN(const std::string seal,
                           RequiredField<std::string>(root, std::string(kSealKey), file_));
    const size_t at = text.rfind(seal);
    const bool known = seal.size() == kNoSeal.size() && at != std::string_view::npos;
    if (known && SealOf(text, at) == seal) return absl::OkStatus();
    return DataError({.file = file_,
                      .message = "the file is damaged: it is not what was written",
                      .found = known ? StrCat("a checksum of ", SealOf(text, at)) : StrCat("'", seal, "'"),
                      .expected = known ? seal : "a checksum of 16 hexadecimal digits",
                      .hint = StrCat("of a manifest that was edited on purpose, remove the key '",
                                     std::string(kSealKey), "'")});
  }

  absl::Status CheckVersion(const json& root) const {
    FTUNE_ASSIGN_OR_RETURN(const std::string format, RequiredField<std::string>(root, "format", file_));
    if (format != kFormat) return Bad("format", StrCat("'", format, "'"), StrCat("'", kFormat, "'"));
    FTUNE_ASSIGN_OR_RETURN(const int64_t version, RequiredField<int64_t>(root, "version", file_));
    if (version == kVersion) return absl::OkStatus();
    return DataError({.file = file_,
                      .key = "version",
                      .message = "a checkpoint of another version of ftune",
                      .found = StrCat(version),
                      .expected = StrCat(kVersion),
                      .hint = version > kVersion ? "resume with that newer ftune"
                                                 : "resume with the ftune that has written it"});
  }

  absl::StatusOr<int64_t> Count(const json& object, const std::string& key) const {
    FTUNE_ASSIGN_OR_RETURN(const int64_t value, RequiredField<int64_t>(object, key, file_));
    if (value < 0) return Bad(key, StrCat(value), "0 or more");
    return value;
  }

  absl::StatusOr<const json*> Object(const json& object, const std::string& key) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_object())
      return Bad(key, found == object.end() ? "nothing" : Excerpt(*found), "an object");
    return &*found;
  }

  absl::StatusOr<std::optional<double>> MaybeNumber(const json& object, const std::string& key) const {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return std::optional<double>();
    FTUNE_ASSIGN_OR_RETURN(const double value, RequiredField<double>(object, key, file_));
    return std::optional<double>(value);
  }

  absl::StatusOr<TrainerState> ReadState(const json& root) const {
    TrainerState state;
    FTUNE_ASSIGN_OR_RETURN(const json* position, Object(root, "position"));
    FTUNE_ASSIGN_OR_RETURN(state.position, ReadDataPosition(*position, file_));
    FTUNE_ASSIGN_OR_RETURN(state.updates, Count(root, "updates"));
    FTUNE_ASSIGN_OR_RETURN(state.skipped, Count(root, "skipped"));
    FTUNE_ASSIGN_OR_RETURN(state.epoch, RequiredField<double>(root, "epoch", file_));
    FTUNE_ASSIGN_OR_RETURN(state.loss, MaybeNumber(root, "loss"));
    FTUNE_ASSIGN_OR_RETURN(state.eval_loss, MaybeNumber(root, "eval_loss"));
    if (root.contains("eval_step") && !root["eval_step"].is_null()) {
      FTUNE_ASSIGN_OR_RETURN(state.eval_step, Count(root, "eval_step"));
    }
    FTUNE_ASSIGN_OR_RETURN(state.best_loss, MaybeNumber(root, "best_loss"));
    FTUNE_ASSIGN_OR_RETURN(state.best_step, Count(root, "best_step"));
    FTUNE_ASSIGN_OR_RETURN(state.worse_in_a_row, Count(root, "worse_in_a_row"));
    const auto scale = root.find("loss_scale");
    if (scale == root.end() || scale->is_null()) return state;
    FTUNE_ASSIGN_OR_RETURN(const json* fields, Object(root, "loss_scale"));
    LossScaler::State& scaler = state.loss_scale.emplace();
    FTUNE_ASSIGN_OR_RETURN(scaler.scale, RequiredField<double>(*fields, "scale", file_));
    FTUNE_ASSIGN_OR_RETURN(scaler.good_steps, Count(*fields, "good_steps"));
    FTUNE_ASSIGN_OR_RETURN(scaler.hysteresis, Count(*fields, "hysteresis"));
    FTUNE_ASSIGN_OR_RETURN(scaler.overflows, Count(*fields, "overflows"));
    return state;
  }

  absl::Status ReadFiles(const json& root, Manifest& manifest) {
    FTUNE_ASSIGN_OR_RETURN(const json* files, Object(root, "files"));
    for (const auto& [name, value] : files->items()) {
      const std::filesystem::path path(name);
      if (name.empty() || path.filename() != path || name == "." || name == "..")
        return Bad("files", StrCat("'", name, "'"), "the name of a file in this folder");
      if (!value.is_object()) return Bad(StrCat("files.", name), Excerpt(value), "an object");
      CheckpointFile file{.name = name};
      FTUNE_ASSIGN_OR_RETURN(file.bytes, Count(value, "bytes"));
      FTUNE_ASSIGN_OR_RETURN(const std::string hash, RequiredField<std::string>(value, "xxh3", file_));
      const auto [end, error] = std::from_chars(hash.data(), hash.data() + hash.size(), file.xxh3, 16);
      if (error != std::errc() || end != hash.data() + hash.size() || hash.size() != 16)
        return Bad(StrCat("files.", name, ".xxh3"), StrCat("'", hash, "'"), "16 hexadecimal digits");
      numbers_[name] = manifest.files.size();
      manifest.files.push_back(std::move(file));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int64_t>> Numbers(const json& object, const std::string& key,
                                               const std::string& tensor) const {
    const auto found = object.find(key);
    std::vector<int64_t> numbers;
    if (found == object.end() || !found->is_array())
      return Bad(tensor, StrCat(key, ": ", found == object.end() ? "nothing" : Excerpt(*found)), "a list");
    for (const json& number : *found) {
      if (!number.is_number_unsigned() || number.get<uint64_t>() > std::numeric_limits<int64_t>::max())
        return Bad(tensor, StrCat(key, ": ", Excerpt(number)), "a number of 0 or more");
      numbers.push_back(number.get<int64_t>());
    }
    return numbers;
  }

  absl::StatusOr<CheckpointTensor> ReadTensor(const json& value, const std::string& name,
                                              const Manifest& manifest) const {
    if (!value.is_object()) return Bad(name, Excerpt(value), "an object");
    CheckpointTensor tensor;
    FTUNE_ASSIGN_OR_RETURN(const std::string dtype, RequiredField<std::string>(value, "dtype", file_));
    const absl::StatusOr<DType> parsed = ParseDType(dtype);
    if (!parsed.ok() || SafetensorsName(*parsed) != dtype)
      return Bad(name, StrCat("dtype '", dtype, "'"), "one of safetensors");
    tensor.dtype = *parsed;
    FTUNE_ASSIGN_OR_RETURN(tensor.shape, Numbers(value, "shape", name));
    if (tensor.shape.empty() || !CheckedBytes(tensor.dtype, tensor.shape).ok())
      return Bad(name, StrCat("shape ", StrJoin(tensor.shape, " x ")), "one that memory can hold");
    const auto slices = value.find("slices");
    if (slices == value.end() || !slices->is_array()) return Bad(name, "no slices", "a list of them");
    std::vector<Region> regions;
    for (const json& slice : *slices) {
      FTUNE_ASSIGN_OR_RETURN(tensor.slices.emplace_back(), ReadSlice(slice, name, tensor, manifest));
      regions.push_back(tensor.slices.back().region);
    }
    if (const std::optional<std::string> wrong = WhyNotTiled(tensor.shape, regions)) {
      return DataError({.file = file_,
                        .key = name,
                        .message = StrCat("its slices are not the tensor: ", *wrong),
                        .hint = "the manifest is damaged: use another checkpoint"});
    }
    return tensor;
  }

  absl::StatusOr<CheckpointSlice> ReadSlice(const json& value, const std::string& name,
                                            const CheckpointTensor& tensor, const Manifest& manifest) const {
    if (!value.is_object()) return Bad(name, StrCat("slice ", Excerpt(value)), "an object");
    CheckpointSlice slice;
    FTUNE_ASSIGN_OR_RETURN(const std::string file, RequiredField<std::string>(value, "file", file_));
    const auto number = numbers_.find(file);
    if (number == numbers_.end()) return Bad(name, StrCat("a slice in '", file, "'"), "one of 'files'");
    slice.file = number->second;
    FTUNE_ASSIGN_OR_RETURN(slice.offset, Count(value, "offset"));
    FTUNE_ASSIGN_OR_RETURN(slice.region.begin, Numbers(value, "begin", name));
    FTUNE_ASSIGN_OR_RETURN(slice.region.size, Numbers(value, "size", name));
    const Region& region = slice.region;
    bool inside = region.begin.size() == tensor.shape.size() && region.size.size() == tensor.shape.size();
    for (size_t d = 0; inside && d < tensor.shape.size(); ++d) {
      inside = region.begin[d] <= tensor.shape[d] && region.size[d] <= tensor.shape[d] - region.begin[d];
    }
    if (!inside) return Bad(name, StrCat("a slice ", Excerpt(value)), "a part of the tensor");
    const int64_t bytes = BytesFor(tensor.dtype, region.elements());
    if (slice.offset > manifest.files[slice.file].bytes - bytes)
      return Bad(name, StrCat("a slice that ends past the end of ", file), "one within the file");
    return slice;
  }

  std::string file_;
  std::map<std::string, size_t> numbers_;  // of files
};

}  // namespace

int64_t CheckpointTensor::bytes() const { return BytesFor(dtype, WholeOf(shape).elements()); }

const CheckpointTensor* Manifest::Find(const std::string& parameter, const std::string& state) const {
  if (state.empty()) {
    const auto found = values.find(parameter);
    return found == values.end() ? nullptr : &found->second;
  }
  const auto states = optimizer.find(parameter);
  if (states == optimizer.end()) return nullptr;
  const auto found = states->second.find(state);
  return found == states->second.end() ? nullptr : &found->second;
}

int64_t Manifest::bytes() const {
  int64_t sum = 0;
  for (const CheckpointFile& file : files) sum += file.bytes;
  return sum;
}

ordered_json ToJson(const TrainerState& state) {
  ordered_json json = {{"position", ToJson(state.position)},
                       {"updates", state.updates},
                       {"skipped", state.skipped},
                       {"epoch", state.epoch},
                       {"loss_scale", nullptr},
                       {"loss", OrNull(state.loss)},
                       {"eval_loss", OrNull(state.eval_loss)},
                       {"eval_step", OrNull(state.eval_step)},
                       {"best_loss", OrNull(state.best_loss)},
                       {"best_step", state.best_step},
                       {"worse_in_a_row", state.worse_in_a_row}};
  if (const auto& scale = state.loss_scale) {
    json["loss_scale"] = {{"scale", scale->scale},
                          {"good_steps", scale->good_steps},
                          {"hysteresis", scale->hysteresis},
                          {"overflows", scale->overflows}};
  }
  return json;
}

std::string WriteManifest(const Manifest& manifest) {
  ordered_json files = ordered_json::object();
  for (const CheckpointFile& file : manifest.files) {
    files[file.name] = {{"bytes", file.bytes}, {"xxh3", Hex(file.xxh3)}};
  }
  ordered_json values = ordered_json::object(), optimizer = ordered_json::object();
  for (const auto& [name, tensor] : manifest.values) values[name] = ToJson(tensor, manifest.files);
  for (const auto& [name, states] : manifest.optimizer) {
    for (const auto& [key, tensor] : states) optimizer[name][key] = ToJson(tensor, manifest.files);
  }
  std::string text = Lines({{"format", kFormat},
                            {"version", kVersion},
                            {"step", manifest.step},
                            {"model", manifest.model},
                            {"data", manifest.data},
                            {"seed", manifest.seed},
                            {"state", ToJson(manifest.state)},
                            {"mesh", manifest.mesh},
                            {"files", std::move(files)},
                            {"values", std::move(values)},
                            {"optimizer", std::move(optimizer)},
                            {"recipe", manifest.recipe},
                            {"adapter", manifest.adapter},
                            {std::string(kSealKey), kNoSeal}});
  const size_t at = text.rfind(kNoSeal);
  return text.replace(at, kNoSeal.size(), SealOf(text, at));
}

absl::StatusOr<Manifest> ReadManifest(const std::filesystem::path& folder) {
  return ManifestReader(folder).ReadFile();
}

absl::StatusOr<Manifest> ParseManifest(const std::string& text, const std::filesystem::path& folder) {
  return ManifestReader(folder).Read(text);
}

}  // namespace ftune
