#include "engine/format/hf_writer.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/gguf.h"
#include "base/tensor_bytes.h"
#include "engine/format/config_writer.h"
#include "engine/format/file_names.h"
#include "engine/format/gguf_tokenizer.h"
#include "engine/format/shard_writer.h"

namespace ftune {
namespace {

constexpr char kGenerationFile[] = "generation_config.json";
constexpr char kTemplateFile[] = "chat_template.jinja";  // goes before tokenizer_config.json's template
constexpr std::array<const char*, 8> kTokenizerFiles = {"tokenizer.json",
                                                        "tokenizer_config.json",
                                                        "special_tokens_map.json",
                                                        "added_tokens.json",
                                                        "vocab.json",
                                                        "merges.txt",
                                                        "tokenizer.model",
                                                        kTemplateFile};
constexpr std::string_view kHeadWeight = "lm_head.weight";

absl::Status CopyIfThere(const std::filesystem::path& from, const std::filesystem::path& to,
                         const char* name) {
  if (!Exists(from / name)) return absl::OkStatus();
  return CopyFileAtomic(from / name, to / name);
}

// The type that most bytes have.
DType MainDType(const std::vector<OutputTensor>& tensors) {
  std::map<DType, int64_t> bytes;
  for (const OutputTensor& tensor : tensors)
    bytes[tensor.dtype] += CheckedBytes(tensor.dtype, tensor.shape).value_or(0);
  DType main = DType::kF32;
  int64_t most = -1;
  for (const auto& [dtype, count] : bytes) {
    if (count > most) std::tie(main, most) = std::pair(dtype, count);
  }
  return main;
}

absl::Status CheckNotBase(const ModelFiles& base, const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path own = base.is_gguf ? std::filesystem::path() : base.path;
  if (own.empty() || !std::filesystem::equivalent(own, folder, error)) return absl::OkStatus();
  return UsageError({.file = folder.string(),
                     .message = "the model cannot be written over the one it was made from",
                     .hint = "choose another folder"});
}

}  // namespace

namespace {

absl::Status CopyTokenizerFiles(const ModelFiles& base, const std::filesystem::path& folder) {
  const bool separate = !base.tokenizer_folder.empty();
  if (separate || !base.is_gguf) {
    const std::filesystem::path& from = separate ? base.tokenizer_folder : base.path;
    for (const char* name : kTokenizerFiles) FTUNE_RETURN_IF_ERROR(CopyIfThere(from, folder, name));
    return absl::OkStatus();
  }
  FTUNE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(base.path));
  FTUNE_ASSIGN_OR_RETURN(const TokenizerFiles files, MakeTokenizerFiles(file));
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(folder / "tokenizer.json", files.tokenizer_json));
  return WriteFileAtomic(folder / "tokenizer_config.json", files.tokenizer_config_json);
}

}  // namespace

absl::Status WriteTokenizerFiles(const ModelFiles& base, const std::filesystem::path& folder) {
  FTUNE_RETURN_IF_ERROR(CopyTokenizerFiles(base, folder));
  if (base.chat_template.empty()) return absl::OkStatus();
  return WriteFileAtomic(folder / kTemplateFile, base.chat_template);
}

absl::Status WriteHfModel(const ModelFiles& base, const std::filesystem::path& folder,
                          std::span<const OutputTensor> tensors, int64_t max_shard_bytes) {
  FTUNE_RETURN_IF_ERROR(MakeFolder(folder));
  FTUNE_RETURN_IF_ERROR(CheckNotBase(base, folder));
  std::vector<OutputTensor> kept(tensors.begin(), tensors.end());
  if (base.config.tied_head) {
    std::erase_if(kept, [](const OutputTensor& tensor) { return tensor.name == kHeadWeight; });
  }
  const DType dtype = MainDType(kept);
  FTUNE_RETURN_IF_ERROR(WriteTokenizerFiles(base, folder));
  FTUNE_RETURN_IF_ERROR(WriteShards(folder, kept, max_shard_bytes));
  if (base.is_gguf) {
    FTUNE_RETURN_IF_ERROR(WriteFileAtomic(folder / kGenerationFile, MakeGenerationConfigJson(base.config)));
    return WriteFileAtomic(folder / kModelConfigFile, MakeConfigJson(base.config, dtype));
  }
  FTUNE_RETURN_IF_ERROR(CopyIfThere(base.path, folder, kGenerationFile));
  FTUNE_ASSIGN_OR_RETURN(const std::string config, UpdateConfigJson(base.config_json, base.config, dtype,
                                                                    (base.path / kModelConfigFile).string()));
  return WriteFileAtomic(folder / kModelConfigFile, config);
}

}  // namespace ftune
