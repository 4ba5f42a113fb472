#include "engine/format/rope_reader.h"

#include <cmath>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

using nlohmann::json;

constexpr double kDefaultTheta = 10000.0;

absl::StatusOr<RopeKind> ReadKind(const json& parameters, const std::string& where, const std::string& file) {
  const std::string key = parameters.contains("rope_type") ? "rope_type" : "type";
  FTUNE_ASSIGN_OR_RETURN(const std::string type, FieldOr<std::string>(parameters, key, "default", file));
  if (type == "default") return RopeKind::kDefault;
  if (type == "linear") return RopeKind::kLinear;
  if (type == "llama3") return RopeKind::kLlama3;
  return DataError({.file = file,
                    .key = StrCat(where, ".", key),
                    .message = "the rope type is not supported",
                    .found = StrCat("'", type, "'"),
                    .expected = "default, linear or llama3"});
}

absl::Status CheckPositive(double value, const std::string& key, const std::string& file) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return DataError({.file = file, .key = key, .found = StrCat(value), .expected = "a positive number"});
}

absl::Status ReadLlama3(const json& parameters, const json& config, int64_t max_position,
                        const std::string& where, const std::string& file, RopeConfig& rope) {
  FTUNE_ASSIGN_OR_RETURN(rope.low_freq_factor, RequiredField<double>(parameters, "low_freq_factor", file));
  FTUNE_ASSIGN_OR_RETURN(rope.high_freq_factor, RequiredField<double>(parameters, "high_freq_factor", file));
  // transformers lets a value outside the dictionary win (standardize_rope_params).
  const std::string key = "original_max_position_embeddings";
  FTUNE_ASSIGN_OR_RETURN(const int64_t inside, FieldOr<int64_t>(parameters, key, max_position, file));
  FTUNE_ASSIGN_OR_RETURN(rope.original_max_position, FieldOr<int64_t>(config, key, inside, file));
  FTUNE_RETURN_IF_ERROR(CheckPositive(rope.low_freq_factor, where + ".low_freq_factor", file));
  FTUNE_RETURN_IF_ERROR(
      CheckPositive(static_cast<double>(rope.original_max_position), where + "." + key, file));
  if (!(rope.high_freq_factor > rope.low_freq_factor) || !std::isfinite(rope.high_freq_factor)) {
    return DataError({.file = file,
                      .key = where + ".high_freq_factor",
                      .found = StrCat(rope.high_freq_factor),
                      .expected = StrCat("more than low_freq_factor, ", rope.low_freq_factor)});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RopeConfig> ReadRope(const json& config, int64_t max_position, const std::string& file) {
  const auto is_set = [&](const char* key) {
    return config.contains(key) && !config[key].is_null() && !config[key].empty();
  };
  // transformers: rope_scaling, if there is one, else rope_parameters.
  const std::string where = is_set("rope_scaling") ? "rope_scaling" : "rope_parameters";
  const json parameters = is_set(where.c_str()) ? config[where] : json::object();
  if (!parameters.is_object()) {
    return DataError(
        {.file = file, .key = where, .found = Excerpt(parameters), .expected = "an object or null"});
  }
  for (const auto& [key, value] : parameters.items()) {
    if (value.is_object()) {
      return DataError({.file = file,
                        .key = StrCat(where, ".", key),
                        .message = "rotary settings of their own for some layers are not supported"});
    }
  }
  FTUNE_ASSIGN_OR_RETURN(const double rotary,
                         FieldOr<double>(parameters, "partial_rotary_factor", 1.0, file));
  if (rotary != 1.0) {
    return DataError({.file = file,
                      .key = StrCat(where, ".partial_rotary_factor"),
                      .message = "the field changes what the model computes and is not supported",
                      .found = StrCat(rotary),
                      .expected = "1"});
  }

  RopeConfig rope;
  FTUNE_ASSIGN_OR_RETURN(rope.kind, ReadKind(parameters, where, file));
  FTUNE_ASSIGN_OR_RETURN(const double outer_theta,
                         FieldOr<double>(config, "rope_theta", kDefaultTheta, file));
  FTUNE_ASSIGN_OR_RETURN(rope.theta, FieldOr<double>(parameters, "rope_theta", outer_theta, file));
  FTUNE_RETURN_IF_ERROR(CheckPositive(rope.theta, "rope_theta", file));
  if (rope.kind == RopeKind::kDefault) return rope;

  FTUNE_ASSIGN_OR_RETURN(rope.factor, RequiredField<double>(parameters, "factor", file));
  FTUNE_RETURN_IF_ERROR(CheckPositive(rope.factor, where + ".factor", file));
  if (rope.kind == RopeKind::kLlama3) {
    FTUNE_RETURN_IF_ERROR(ReadLlama3(parameters, config, max_position, where, file, rope));
  }
  return rope;
}

}  // namespace ftune
