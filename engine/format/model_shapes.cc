#include "engine/format/model_shapes.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/strings.h"
#include "engine/format/config_reader.h"
#include "engine/format/config_writer.h"
#include "engine/format/file_names.h"
#include "engine/format/model_config.h"
#include "engine/model/modules.h"

namespace ftune {
namespace {

// Addresses with nothing behind them.
class EmptyRange {
 public:
  static absl::StatusOr<EmptyRange> Reserve(int64_t bytes) {
    void* const begin = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) return IoError("a tensor", "reserve addresses", errno);
    return EmptyRange(begin, bytes);
  }
  EmptyRange(EmptyRange&& other) noexcept
      : begin_(std::exchange(other.begin_, nullptr)), bytes_(other.bytes_) {}
  EmptyRange& operator=(EmptyRange&&) = delete;
  ~EmptyRange() {
    if (begin_ != nullptr) munmap(begin_, static_cast<size_t>(bytes_));
  }

  const std::byte* begin() const { return static_cast<const std::byte*>(begin_); }

 private:
  EmptyRange(void* begin, int64_t bytes) : begin_(begin), bytes_(bytes) {}

  void* begin_;
  int64_t bytes_;
};

// All tensors of a model in one dtype, each at the same addresses.
class ShapeWeights final : public WeightSource {
 public:
  static absl::StatusOr<std::unique_ptr<WeightSource>> Make(const ModelConfig& config, DType dtype,
                                                            const std::string& file) {
    std::vector<SourceTensor> tensors;
    int64_t most = 1;
    for (ParameterShape& parameter : ModelParameters(config)) {
      int64_t count = 1;
      for (const int64_t size : parameter.shape) count *= size;
      most = std::max(most, BytesFor(dtype, count));
      tensors.push_back(
          {.name = std::move(parameter.name), .dtype = dtype, .shape = std::move(parameter.shape)});
    }
    FTUNE_ASSIGN_OR_RETURN(EmptyRange range, EmptyRange::Reserve(most));
    for (SourceTensor& tensor : tensors) {
      int64_t count = 1;
      for (const int64_t size : tensor.shape) count *= size;
      tensor.bytes = {range.begin(), static_cast<size_t>(BytesFor(dtype, count))};
      tensor.file = file;
    }
    std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return std::unique_ptr<WeightSource>(new ShapeWeights(std::move(range), std::move(tensors)));
  }

  const std::vector<SourceTensor>& tensors() const override { return tensors_; }

 private:
  ShapeWeights(EmptyRange range, std::vector<SourceTensor> tensors)
      : range_(std::move(range)), tensors_(std::move(tensors)) {}

  EmptyRange range_;
  std::vector<SourceTensor> tensors_;
};

absl::StatusOr<DType> NamedDType(const std::string& config_json, const std::string& file) {
  const auto config = nlohmann::json::parse(config_json);
  for (const char* key : {"dtype", "torch_dtype"}) {  // transformers 5's, and before
    const auto named = config.find(key);
    if (named == config.end() || named->is_null()) continue;
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (*named == TorchName(dtype)) return dtype;
    }
    return DataError({.file = file,
                      .key = key,
                      .found = named->dump(),
                      .expected = "\"float32\", \"bfloat16\" or \"float16\""});
  }
  return DType::kF32;
}

absl::StatusOr<bool> HasWeights(const std::filesystem::path& folder) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> paths, ListFolder(folder));
  return std::any_of(paths.begin(), paths.end(),
                     [](const auto& path) { return path.extension() == ".safetensors"; });
}

}  // namespace

absl::StatusOr<ModelFiles> OpenModelShapes(const std::filesystem::path& path) {
  std::filesystem::path config = path;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    config = path / kModelConfigFile;
    FTUNE_ASSIGN_OR_RETURN(const bool has_weights, HasWeights(path));
    if (has_weights || !Exists(config)) return OpenModel(path);
  } else if (!IsModelConfig(path)) {
    return OpenModel(path);
  }
  FTUNE_ASSIGN_OR_RETURN(HfConfig read, ReadHfConfig(config));
  ModelFiles files;
  files.path = path;
  files.config = std::move(read.model);
  files.config_json = std::move(read.text);
  files.text_only = read.text_only;
  FTUNE_ASSIGN_OR_RETURN(const DType dtype, NamedDType(files.config_json, config.string()));
  FTUNE_ASSIGN_OR_RETURN(files.weights, ShapeWeights::Make(files.config, dtype, config.string()));
  return files;
}

}  // namespace ftune
