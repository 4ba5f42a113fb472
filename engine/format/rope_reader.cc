#include "engine/format/rope_reader.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

using nlohmann::json;

constexpr double kLocalTheta = 10000.0;

struct KindName {
  const char* name;
  RopeKind kind;
};
constexpr std::array<KindName, 7> kKinds = {{{"default", RopeKind::kDefault},
                                             {"linear", RopeKind::kLinear},
                                             {"dynamic", RopeKind::kDynamic},
                                             {"yarn", RopeKind::kYarn},
                                             {"longrope", RopeKind::kLongRope},
                                             {"su", RopeKind::kLongRope},  // its first name
                                             {"llama3", RopeKind::kLlama3}}};

// What a set of parameters of each kind may have, beside those of every kind.
constexpr std::array<const char*, 4> kCommonKeys = {"rope_type", "type", "rope_theta",
                                                    "partial_rotary_factor"};
struct KindKeys {
  RopeKind kind;
  std::array<const char*, 8> keys;  // unused ones are null
};
constexpr std::array<KindKeys, 6> kKindKeys = {
    {{RopeKind::kDefault, {}},
     {RopeKind::kLinear, {"factor"}},
     {RopeKind::kDynamic, {"factor"}},
     {RopeKind::kYarn,
      {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "truncate",
       "mscale", "mscale_all_dim"}},
     {RopeKind::kLongRope,
      {"factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor"}},
     {RopeKind::kLlama3,
      {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"}}}};

// A set of parameters with where it stands.
struct Parameters {
  const json& values;
  const std::string& where;
  const std::string& file;

  std::string Key(const char* name) const { return StrCat(where, ".", name); }
  bool Has(const char* name) const { return values.contains(name) && !values[name].is_null(); }
  absl::Status Error(const char* name, std::string found, std::string expected,
                     std::string message = "") const {
    return DataError({.file = file,
                      .key = Key(name),
                      .message = std::move(message),
                      .found = std::move(found),
                      .expected = std::move(expected)});
  }
  absl::StatusOr<double> Positive(const char* name, std::optional<double> fallback = std::nullopt) const {
    if (!Has(name) && fallback) return *fallback;
    FTUNE_ASSIGN_OR_RETURN(const double value, RequiredField<double>(values, name, file));
    if (!(value > 0) || !std::isfinite(value)) return Error(name, StrCat(value), "a positive number");
    return value;
  }
};

absl::StatusOr<RopeKind> ReadKind(const Parameters& p) {
  const char* key = p.values.contains("rope_type") ? "rope_type" : "type";
  FTUNE_ASSIGN_OR_RETURN(const std::string name, FieldOr<std::string>(p.values, key, "default", p.file));
  for (const KindName& kind : kKinds) {
    if (name == kind.name) return kind.kind;
  }
  return p.Error(key, StrCat("'", name, "'"), "default, linear, dynamic, yarn, longrope or llama3",
                 "the rope type is not supported");
}

// A parameter that the kind does not have would change the positions, had ftune known it. One without an
// effect may stand there: a factor of 1, null.
absl::Status CheckKeys(const Parameters& p, RopeKind kind) {
  const auto* row = std::find_if(kKindKeys.begin(), kKindKeys.end(),
                                 [&](const KindKeys& keys) { return keys.kind == kind; });
  const auto has = [](const auto& names, const std::string& key) {
    return std::any_of(names.begin(), names.end(),
                       [&](const char* name) { return name != nullptr && key == name; });
  };
  for (const auto& [key, value] : p.values.items()) {
    const bool neutral = value.is_null() || (key == "factor" && value == 1.0);
    if (neutral || has(kCommonKeys, key) || has(row->keys, key)) continue;
    // transformers writes the trained context for every kind that scales.
    if (kind == RopeKind::kLinear || kind == RopeKind::kDynamic) {
      if (key == "original_max_position_embeddings") continue;
    }
    return DataError({.file = p.file,
                      .key = p.Key(key.c_str()),
                      .message = "a rope parameter that is not supported with this rope type",
                      .found = Excerpt(value),
                      .expected = "only the type's own parameters"});
  }
  return absl::OkStatus();
}

absl::Status ReadOriginal(const Parameters& p, const RopeDefaults& defaults, RopeConfig& rope) {
  const char* key = "original_max_position_embeddings";
  FTUNE_ASSIGN_OR_RETURN(const int64_t inside,
                         FieldOr<int64_t>(p.values, key, defaults.max_position, p.file));
  rope.original_max_position = defaults.original_max_position.value_or(inside);
  if (rope.original_max_position > 0) return absl::OkStatus();
  return p.Error(key, StrCat(rope.original_max_position), "a positive integer");
}

absl::Status ReadLlama3(const Parameters& p, RopeConfig& rope) {
  FTUNE_ASSIGN_OR_RETURN(rope.low_freq_factor, p.Positive("low_freq_factor"));
  FTUNE_ASSIGN_OR_RETURN(rope.high_freq_factor, p.Positive("high_freq_factor"));
  if (rope.high_freq_factor > rope.low_freq_factor) return absl::OkStatus();
  return p.Error("high_freq_factor", StrCat(rope.high_freq_factor),
                 StrCat("more than low_freq_factor, ", rope.low_freq_factor));
}

// The factor, which yarn and longrope may leave to the ratio of the contexts.
absl::Status ReadFactorOrRatio(const Parameters& p, const RopeDefaults& defaults, RopeConfig& rope) {
  const double ratio =
      static_cast<double>(defaults.max_position) / static_cast<double>(rope.original_max_position);
  FTUNE_ASSIGN_OR_RETURN(rope.factor, p.Positive("factor", ratio));
  return absl::OkStatus();
}

// YaRN §3.4, with DeepSeek's mscale keys.
double Mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

absl::Status ReadYarn(const Parameters& p, const RopeDefaults& defaults, RopeConfig& rope) {
  FTUNE_RETURN_IF_ERROR(ReadFactorOrRatio(p, defaults, rope));
  FTUNE_ASSIGN_OR_RETURN(rope.beta_fast, p.Positive("beta_fast", 32.0));
  FTUNE_ASSIGN_OR_RETURN(rope.beta_slow, p.Positive("beta_slow", 1.0));
  FTUNE_ASSIGN_OR_RETURN(rope.truncate, FieldOr<bool>(p.values, "truncate", true, p.file));
  FTUNE_ASSIGN_OR_RETURN(const double mscale, FieldOr<double>(p.values, "mscale", 0.0, p.file));
  FTUNE_ASSIGN_OR_RETURN(const double all_dim, FieldOr<double>(p.values, "mscale_all_dim", 0.0, p.file));
  const double inferred = mscale != 0 && all_dim != 0
                              ? Mscale(rope.factor, mscale) / Mscale(rope.factor, all_dim)
                              : Mscale(rope.factor, 1.0);
  FTUNE_ASSIGN_OR_RETURN(rope.attention_factor, p.Positive("attention_factor", inferred));
  return absl::OkStatus();
}

absl::Status ReadFactors(const Parameters& p, const char* key, int64_t count, std::vector<double>& factors) {
  const std::string expected = StrCat("a list of ", count, " positive numbers (half the rotated width)");
  if (!p.Has(key)) return p.Error(key, "nothing", expected);
  const json& list = p.values[key];
  if (!list.is_array() || static_cast<int64_t>(list.size()) != count) {
    return p.Error(key, list.is_array() ? StrCat("a list of ", list.size()) : Excerpt(list), expected);
  }
  for (const json& factor : list) {
    if (!factor.is_number() || !(factor.get<double>() > 0)) return p.Error(key, Excerpt(factor), expected);
    factors.push_back(factor.get<double>());
  }
  return absl::OkStatus();
}

absl::Status ReadLongRope(const Parameters& p, const RopeDefaults& defaults, RopeConfig& rope) {
  FTUNE_RETURN_IF_ERROR(ReadFactors(p, "short_factor", defaults.rotary_dim / 2, rope.short_factors));
  FTUNE_RETURN_IF_ERROR(ReadFactors(p, "long_factor", defaults.rotary_dim / 2, rope.long_factors));
  FTUNE_RETURN_IF_ERROR(ReadFactorOrRatio(p, defaults, rope));
  const double inferred =
      rope.factor <= 1
          ? 1.0
          : std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(rope.original_max_position)));
  FTUNE_ASSIGN_OR_RETURN(rope.attention_factor, p.Positive("attention_factor", inferred));
  return absl::OkStatus();
}

bool IsSet(const json& config, const char* key) {
  return config.contains(key) && !config[key].is_null() && !config[key].empty();
}

bool IsNested(const json& parameters) {
  for (const auto& [key, value] : parameters.items()) {
    if (value.is_object()) return true;
  }
  return false;
}

// The rotated width of each head. `parameters` may hold the share, and so may the config.
absl::Status ReadRotaryDim(const json& config, const json& parameters, const Family& family,
                           const std::string& file, ModelConfig& model) {
  const char* key = "partial_rotary_factor";
  FTUNE_ASSIGN_OR_RETURN(const double outer, FieldOr<double>(config, key, 1.0, file));
  FTUNE_ASSIGN_OR_RETURN(const double share, FieldOr<double>(parameters, key, outer, file));
  if (share == 1.0) return absl::OkStatus();
  ErrorDetail error = {.file = file, .key = key, .found = StrCat(share)};
  if (!family.partial_rotary) {
    error.message = "the field changes what the model computes and is not supported";
    error.expected = "1";
    return DataError(std::move(error));
  }
  model.rotary_dim = static_cast<int64_t>(static_cast<double>(model.head_dim) * share);
  if (share > 0 && share < 1 && model.rotary_dim > 0 && model.rotary_dim % 2 == 0) return absl::OkStatus();
  error.expected = StrCat("a share of head_dim, ", model.head_dim, ", that is an even number");
  return DataError(std::move(error));
}

// Gemma 3: parameters for each type of layer, or one set (for the global layers) and a base for the local
// ones.
absl::Status ReadLocalRopes(const json& config, const json& parameters, const std::string& where,
                            const RopeDefaults& defaults, const std::string& file, ModelConfig& model) {
  const bool nested = IsNested(parameters);
  if (!nested && where == "rope_parameters" && !parameters.empty()) {
    return DataError({.file = file,
                      .key = where,
                      .found = Excerpt(parameters),
                      .expected = "one object for full_attention and one for sliding_attention"});
  }
  const auto part = [&](const char* type) {
    return nested && parameters.contains(type) && parameters[type].is_object() ? parameters[type]
                                                                               : json::object();
  };
  const json global = nested ? part("full_attention") : parameters;
  FTUNE_ASSIGN_OR_RETURN(model.rope, ReadRopeParameters(global, defaults, where, file));
  RopeDefaults local = defaults;
  FTUNE_ASSIGN_OR_RETURN(local.theta, FieldOr<double>(config, "rope_local_base_freq", kLocalTheta, file));
  FTUNE_ASSIGN_OR_RETURN(model.local_rope, ReadRopeParameters(part("sliding_attention"), local, where, file));
  if (model.local_rope.kind != RopeKind::kLongRope) return absl::OkStatus();
  return DataError(
      {.file = file, .key = where, .message = "longrope for layers with a window is not supported"});
}

}  // namespace

absl::StatusOr<RopeConfig> ReadRopeParameters(const json& parameters, const RopeDefaults& defaults,
                                              const std::string& where, const std::string& file) {
  const Parameters p = {parameters, where, file};
  RopeConfig rope;
  FTUNE_ASSIGN_OR_RETURN(rope.kind, ReadKind(p));
  FTUNE_RETURN_IF_ERROR(CheckKeys(p, rope.kind));
  FTUNE_ASSIGN_OR_RETURN(rope.theta, p.Positive("rope_theta", defaults.theta));
  switch (rope.kind) {
    case RopeKind::kDefault:
      return rope;
    case RopeKind::kLinear: {
      FTUNE_ASSIGN_OR_RETURN(rope.factor, p.Positive("factor"));
      return rope;
    }
    case RopeKind::kDynamic: {
      FTUNE_ASSIGN_OR_RETURN(rope.factor, p.Positive("factor"));
      rope.original_max_position = defaults.max_position;
      return rope;
    }
    case RopeKind::kYarn:
    case RopeKind::kLongRope:
    case RopeKind::kLlama3:
      break;
  }
  FTUNE_RETURN_IF_ERROR(ReadOriginal(p, defaults, rope));
  if (rope.kind == RopeKind::kLlama3) {
    FTUNE_ASSIGN_OR_RETURN(rope.factor, p.Positive("factor"));
    FTUNE_RETURN_IF_ERROR(ReadLlama3(p, rope));
  } else {
    FTUNE_RETURN_IF_ERROR(rope.kind == RopeKind::kYarn ? ReadYarn(p, defaults, rope)
                                                       : ReadLongRope(p, defaults, rope));
  }
  return rope;
}

absl::Status ReadRopes(const json& config, const Family& family, const std::string& file,
                       ModelConfig& model) {
  // transformers: rope_scaling, if there is one, else rope_parameters.
  const std::string where = IsSet(config, "rope_scaling") ? "rope_scaling" : "rope_parameters";
  json parameters = IsSet(config, where.c_str()) ? config[where] : json::object();
  if (!parameters.is_object()) {
    return DataError(
        {.file = file, .key = where, .found = Excerpt(parameters), .expected = "an object or null"});
  }
  const bool local = family.rope == RopeRule::kLocal;
  if (!local && IsNested(parameters)) {
    return DataError({.file = file,
                      .key = where,
                      .message = "rotary settings of their own for some layers are not supported",
                      .found = Excerpt(parameters)});
  }
  // Phi-3's first configs call longrope "yarn" (configuration_phi3.py).
  if (family.partial_rotary) {
    for (const char* key : {"rope_type", "type"}) {
      if (parameters.contains(key) && parameters[key] == "yarn") parameters[key] = "longrope";
    }
  }
  FTUNE_RETURN_IF_ERROR(ReadRotaryDim(config, parameters, family, file, model));

  RopeDefaults defaults = {.max_position = model.max_position, .rotary_dim = model.RotaryDim()};
  FTUNE_ASSIGN_OR_RETURN(defaults.theta, FieldOr<double>(config, "rope_theta", family.default_theta, file));
  if (!(defaults.theta > 0)) {
    return DataError({.file = file,
                      .key = "rope_theta",
                      .found = StrCat(defaults.theta),
                      .expected = "a positive number"});
  }
  const char* original = "original_max_position_embeddings";
  if (family.default_original_position > 0) defaults.original_max_position = family.default_original_position;
  if (config.contains(original) && !config[original].is_null()) {
    FTUNE_ASSIGN_OR_RETURN(defaults.original_max_position, RequiredField<int64_t>(config, original, file));
  }
  if (local) return ReadLocalRopes(config, parameters, where, defaults, file, model);
  FTUNE_ASSIGN_OR_RETURN(model.rope, ReadRopeParameters(parameters, defaults, where, file));
  return absl::OkStatus();
}

}  // namespace ftune
