// What a checkpoint is made of: manifest.json, which is written last, so that a folder without one is no
// checkpoint. docs/checkpoints.md describes the format for those who read it with something else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "engine/checkpoint/region.h"
#include "engine/train/trainer_state.h"

namespace ftune {

inline constexpr std::string_view kManifestName = "manifest.json";

// Part of a tensor in a file: row-major bytes of the tensor's dtype.
struct CheckpointSlice {
  size_t file = 0;     // of Manifest::files
  int64_t offset = 0;  // in the file, in bytes
  Region region;
};

struct CheckpointTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // of the whole
  std::vector<CheckpointSlice> slices;

  int64_t bytes() const;
};

struct CheckpointFile {
  std::string name;
  int64_t bytes = 0;
  uint64_t xxh3 = 0;  // XXH3, 64 bits, of all bytes
};

struct Manifest {
  int64_t step = 0;
  std::string recipe;  // resolved, YAML
  std::string model;   // a fingerprint of the model that training began with
  std::string data;    // one of what is learned from; may be empty
  // What the adapter is, as PEFT's adapter_config.json says it; empty where the model itself is trained, and
  // in checkpoints of older versions.
  std::string adapter;
  uint64_t seed = 0;  // keys all random draws, with steps and places
  TrainerState state;
  nlohmann::ordered_json mesh;  // of the writer, for information
  std::vector<CheckpointFile> files;
  // Of each trained parameter, by its Hugging Face name: f32 where the optimizer keeps a master.
  std::map<std::string, CheckpointTensor> values;
  // What the optimizer keeps for it, by the state's name. A name with "@tensor=I/N" is what rank I of N on
  // the tensor axis keeps for its slice, in places that are not those of elements.
  std::map<std::string, std::map<std::string, CheckpointTensor>> optimizer;

  int64_t bytes() const;  // of all files
  // Of a parameter, or of what the optimizer keeps for it; null where there is none.
  const CheckpointTensor* Find(const std::string& parameter, const std::string& state = "") const;
};

// The text of manifest.json.
std::string WriteManifest(const Manifest& manifest);
// Of a checkpoint's folder. An error names the file and what is wrong with it: not there, a newer version, a
// slice outside of its file, elements of a tensor that are missing or there twice.
absl::StatusOr<Manifest> ReadManifest(const std::filesystem::path& folder);
// The same of a text; errors name the folder's file.
absl::StatusOr<Manifest> ParseManifest(const std::string& text, const std::filesystem::path& folder);

nlohmann::ordered_json ToJson(const TrainerState& state);

}  // namespace ftune
