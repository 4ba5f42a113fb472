#include "engine/model/config.h"

#include "base/strings.h"

namespace ftune {

std::string LayerPrefix(const ModelConfig& config, int64_t layer) {
  return StrCat(config.architecture->names.layers, layer, ".");
}

}  // namespace ftune
