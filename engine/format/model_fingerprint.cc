#include "engine/format/model_fingerprint.h"

#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "base/xxh3_stream.h"
#include "engine/format/hf_model.h"
#include "engine/format/peft.h"
#include "engine/format/weight_source.h"

namespace ftune {
namespace {

constexpr size_t kHeader = 64 << 10;
constexpr size_t kSample = 1 << 10;
constexpr size_t kSamples = 8;

void AddSample(std::span<const std::byte> bytes, Xxh3Stream& hash) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() <= kSample * kSamples) return hash.Add(text);
  for (size_t i = 0; i < kSamples; ++i) {
    hash.Add(text.substr((text.size() - kSample) * i / (kSamples - 1), kSample));
  }
}

void AddTensor(const SourceTensor& tensor, Xxh3Stream& hash) {
  const std::string_view type =
      tensor.unsupported_type.empty() ? Name(tensor.dtype) : std::string_view(tensor.unsupported_type);
  hash.Add(StrCat(tensor.name, " ", type, " ", StrJoin(tensor.shape, "x"), " ", tensor.bytes.size(), "\n"));
  AddSample(tensor.bytes, hash);
}

absl::Status AddWeights(const WeightSource& weights, std::vector<FileFingerprint>& files) {
  std::map<std::string, std::vector<const SourceTensor*>> by_file;
  for (const SourceTensor& tensor : weights.tensors()) by_file[tensor.file].push_back(&tensor);
  for (const auto& [path, tensors] : by_file) {
    FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    Xxh3Stream hash;
    hash.Add(file.text().substr(0, kHeader));
    for (const SourceTensor* tensor : tensors) AddTensor(*tensor, hash);
    files.push_back({path, static_cast<int64_t>(file.bytes().size()), hash.Digest64()});
  }
  return absl::OkStatus();
}

absl::StatusOr<FileFingerprint> OfWhole(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return FileFingerprint{path.string(), static_cast<int64_t>(file.bytes().size()), Xxh3Of(file.text())};
}

}  // namespace

absl::StatusOr<std::vector<FileFingerprint>> FingerprintModel(const std::filesystem::path& model) {
  FTUNE_ASSIGN_OR_RETURN(const ModelFiles files, OpenModel(model));
  std::vector<FileFingerprint> all;
  if (!files.is_gguf) {
    FTUNE_ASSIGN_OR_RETURN(FileFingerprint config, OfWhole(model / "config.json"));
    all.push_back(std::move(config));
  }
  FTUNE_RETURN_IF_ERROR(AddWeights(*files.weights, all));
  return all;
}

absl::StatusOr<std::vector<FileFingerprint>> FingerprintAdapter(const std::filesystem::path& folder) {
  FTUNE_ASSIGN_OR_RETURN(const PeftAdapter adapter, OpenPeftAdapter(folder));
  FTUNE_ASSIGN_OR_RETURN(FileFingerprint config, OfWhole(folder / "adapter_config.json"));
  std::vector<FileFingerprint> all = {std::move(config)};
  FTUNE_RETURN_IF_ERROR(AddWeights(*adapter.weights, all));
  return all;
}

}  // namespace ftune
