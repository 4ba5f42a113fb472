#include "engine/format/model_config.h"

#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "engine/format/config_reader.h"
#include "engine/format/file_names.h"
#include "engine/format/hf_model.h"

namespace ftune {
absl::StatusOr<ModelConfig> ReadModelConfig(const std::filesystem::path& model) {
  const std::filesystem::path config =
      model.filename() == kModelConfigFile ? model : model / kModelConfigFile;
  if (Exists(config)) {
    FTUNE_ASSIGN_OR_RETURN(HfConfig read, ReadHfConfig(config));
    return std::move(read.model);
  }
  FTUNE_ASSIGN_OR_RETURN(ModelFiles files, OpenModel(model));
  return std::move(files.config);
}

}  // namespace ftune
