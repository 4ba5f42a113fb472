#include "engine/format/model_config.h"

#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "engine/format/config_reader.h"
#include "engine/format/file_names.h"
#include "engine/format/hf_model.h"

namespace ftune {
bool IsModelConfig(const std::filesystem::path& path) {
  std::error_code error;
  return path.extension() == ".json" && std::filesystem::is_regular_file(path, error);
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& model) {
  const std::filesystem::path config = IsModelConfig(model) ? model : model / kModelConfigFile;
  if (Exists(config)) {
    FTUNE_ASSIGN_OR_RETURN(HfConfig read, ReadHfConfig(config));
    return std::move(read.model);
  }
  FTUNE_ASSIGN_OR_RETURN(ModelFiles files, OpenModel(model));
  return std::move(files.config);
}

}  // namespace ftune
