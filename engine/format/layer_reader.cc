#include "engine/format/layer_reader.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

using nlohmann::json;

absl::Status KeyError(const std::string& file, const std::string& key, std::string found,
                      std::string expected, std::string message = "") {
  return DataError({.file = file,
                    .key = key,
                    .message = std::move(message),
                    .found = std::move(found),
                    .expected = std::move(expected)});
}

bool IsNull(const json& config, const char* key) { return !config.contains(key) || config[key].is_null(); }

// layer_types as one flag a layer: true where the window applies. Nothing if the key is absent.
absl::StatusOr<std::optional<std::vector<bool>>> ReadLayerTypes(const json& config, int64_t num_layers,
                                                                const std::string& file) {
  if (IsNull(config, "layer_types")) return std::nullopt;
  const json& types = config["layer_types"];
  if (!types.is_array() || static_cast<int64_t>(types.size()) != num_layers) {
    return KeyError(file, "layer_types", Excerpt(types),
                    StrCat("a list of ", num_layers, " (the number of layers)"));
  }
  std::vector<bool> sliding;
  for (const json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return KeyError(file, "layer_types", Excerpt(type), "full_attention or sliding_attention",
                      "the layer type is not supported");
    }
    sliding.push_back(type == "sliding_attention");
  }
  return sliding;
}

// The window that layers may have; 0: none.
absl::StatusOr<int64_t> ReadWindow(const json& config, const Family& family, const std::string& file) {
  if (family.window == WindowRule::kNone) return 0;
  int64_t window = family.default_window;
  if (config.contains("sliding_window")) {
    FTUNE_ASSIGN_OR_RETURN(window, FieldOr<int64_t>(config, "sliding_window", 0, file));
    if (!config["sliding_window"].is_null() && window <= 0) {
      return KeyError(file, "sliding_window", StrCat(window), "a positive integer or null");
    }
  }
  if (family.window == WindowRule::kPattern && window == 0) {
    return KeyError(file, "sliding_window", "null", "a positive integer: some layers have a window");
  }
  if (family.window == WindowRule::kFrom || family.window == WindowRule::kNoRope) {
    FTUNE_ASSIGN_OR_RETURN(const bool use, FieldOr<bool>(config, "use_sliding_window", false, file));
    if (!use) window = 0;
  }
  return window;
}

// Without layer_types: true where the window applies.
absl::StatusOr<std::vector<bool>> WindowsByRule(const json& config, const Family& family,
                                                const std::string& file, const ModelConfig& model) {
  std::vector<bool> sliding(model.num_layers, true);
  switch (family.window) {
    case WindowRule::kNone:
    case WindowRule::kAll:
      return sliding;
    case WindowRule::kFrom: {
      FTUNE_ASSIGN_OR_RETURN(const int64_t first, FieldOr<int64_t>(config, "max_window_layers", 28, file));
      for (int64_t layer = 0; layer < model.num_layers; ++layer) sliding[layer] = layer >= first;
      return sliding;
    }
    case WindowRule::kPattern: {
      FTUNE_ASSIGN_OR_RETURN(const int64_t every, FieldOr<int64_t>(config, "sliding_window_pattern",
                                                                   family.default_window_pattern, file));
      if (every <= 0) return KeyError(file, "sliding_window_pattern", StrCat(every), "a positive integer");
      for (int64_t layer = 0; layer < model.num_layers; ++layer) sliding[layer] = (layer + 1) % every != 0;
      return sliding;
    }
    case WindowRule::kNoRope:
      for (int64_t layer = 0; layer < model.num_layers; ++layer) {
        sliding[layer] = model.RopeOf(layer) == LayerRope::kNone;
      }
      return sliding;
  }
  return sliding;
}

absl::Status ReadWindows(const json& config, const Family& family, const std::string& file,
                         ModelConfig& model) {
  FTUNE_ASSIGN_OR_RETURN(const auto types, ReadLayerTypes(config, model.num_layers, file));
  FTUNE_ASSIGN_OR_RETURN(const int64_t window, ReadWindow(config, family, file));
  model.layer_window.assign(model.num_layers, 0);
  if (window == 0) {
    if (types && std::count(types->begin(), types->end(), true) > 0) {
      return KeyError(file, "layer_types", "sliding_attention",
                      "full_attention, since no sliding window is in use");
    }
    return absl::OkStatus();
  }
  if (family.window == WindowRule::kAll && types && std::count(types->begin(), types->end(), false) > 0) {
    return KeyError(file, "layer_types", "full_attention",
                    StrCat("sliding_attention for every layer of ", family.model_type));
  }
  std::vector<bool> sliding;
  if (types) {
    sliding = *types;
  } else {
    FTUNE_ASSIGN_OR_RETURN(sliding, WindowsByRule(config, family, file, model));
  }
  const bool local = family.rope == RopeRule::kLocal;
  if (local) model.layer_rope.assign(model.num_layers, LayerRope::kGlobal);
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    if (!sliding[layer]) continue;
    model.layer_window[layer] = window;
    if (local) model.layer_rope[layer] = LayerRope::kLocal;
  }
  return absl::OkStatus();
}

// SmolLM3: 1 where a layer rotates, 0 where not.
absl::Status ReadNoRope(const json& config, const std::string& file, ModelConfig& model) {
  model.layer_rope.assign(model.num_layers, LayerRope::kGlobal);
  if (IsNull(config, "no_rope_layers")) {
    FTUNE_ASSIGN_OR_RETURN(const int64_t every, FieldOr<int64_t>(config, "no_rope_layer_interval", 4, file));
    if (every <= 0) return KeyError(file, "no_rope_layer_interval", StrCat(every), "a positive integer");
    for (int64_t layer = every - 1; layer < model.num_layers; layer += every) {
      model.layer_rope[layer] = LayerRope::kNone;
    }
    return absl::OkStatus();
  }
  const json& flags = config["no_rope_layers"];
  if (!flags.is_array() || static_cast<int64_t>(flags.size()) < model.num_layers) {
    return KeyError(file, "no_rope_layers", Excerpt(flags),
                    StrCat("a list of ", model.num_layers, " (the number of layers) zeros and ones"));
  }
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    if (flags[layer] != 0 && flags[layer] != 1) {
      return KeyError(file, "no_rope_layers", Excerpt(flags[layer]), "0 (no rotary positions) or 1");
    }
    if (flags[layer] == 0) model.layer_rope[layer] = LayerRope::kNone;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadLayers(const json& config, const Family& family, const std::string& file,
                        ModelConfig& model) {
  if (family.rope == RopeRule::kSome) FTUNE_RETURN_IF_ERROR(ReadNoRope(config, file, model));
  return ReadWindows(config, family, file, model);
}

}  // namespace ftune
