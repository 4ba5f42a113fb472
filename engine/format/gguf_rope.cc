#include "engine/format/gguf_rope.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "base/convert.h"
#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kShortTensor[] = "rope_factors_short.weight";
constexpr char kLongTensor[] = "rope_factors_long.weight";

bool AreClose(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr float kTolerance = 1e-4f;  // relative; the converter computes in fp32
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - b[i]) <= kTolerance * std::abs(b[i]))) return false;
  }
  return true;
}

// Every released Llama 3.x has low 1, high 4 and 8192 positions; other positions are tried in powers of two.
std::optional<RopeConfig> RecoverLlama3(RopeConfig rope, const std::vector<float>& divisors, int64_t head_dim,
                                        int64_t stated_positions) {
  rope.kind = RopeKind::kLlama3;
  rope.factor = divisors.back();  // of the lowest frequency, which is scaled in full
  std::vector<int64_t> candidates = {8192};
  if (stated_positions > 0) candidates.insert(candidates.begin(), stated_positions);
  for (int64_t positions = 1 << 20; positions >= 64; positions /= 2) candidates.push_back(positions);
  for (const int64_t positions : candidates) {
    rope.original_max_position = positions;
    if (AreClose(Llama3Divisors(rope, head_dim), divisors)) return rope;
  }
  return std::nullopt;
}

absl::StatusOr<RopeConfig> ApplyFactors(const GgufFile& file, const GgufTensor& tensor,
                                        const RopeConfig& rope, int64_t head_dim, int64_t stated_positions) {
  if (tensor.dtype != DType::kF32 || tensor.shape != std::vector<int64_t>{head_dim / 2}) {
    return DataError({.file = file.path().string(),
                      .key = kGgufRopeFactors,
                      .found = StrCat(GgmlTypeName(tensor.ggml_type), " [", StrJoin(tensor.shape, ", "), "]"),
                      .expected = StrCat("F32 [", head_dim / 2, "]")});
  }
  std::vector<float> divisors(head_dim / 2);
  ConvertToF32(DType::kF32, tensor.bytes.data(), head_dim / 2, divisors.data());
  if (AreClose(divisors, std::vector<float>(divisors.size(), 1.0f))) return rope;
  const auto recovered = RecoverLlama3(rope, divisors, head_dim, stated_positions);
  if (!recovered || rope.kind != RopeKind::kDefault) {
    return DataError({.file = file.path().string(),
                      .key = kGgufRopeFactors,
                      .message = "the rotary frequency factors are not those of Llama 3's scaling",
                      .hint = "use the original Hugging Face model"});
  }
  return *recovered;
}

absl::StatusOr<std::vector<double>> ReadFactors(const GgufFile& file, const char* name, int64_t count) {
  const GgufTensor* tensor = file.FindTensor(name);
  if (tensor == nullptr || tensor->dtype != DType::kF32 || tensor->shape != std::vector<int64_t>{count}) {
    return DataError({.file = file.path().string(),
                      .key = name,
                      .found = tensor == nullptr ? "nothing" : StrCat("[", StrJoin(tensor->shape, ", "), "]"),
                      .expected = StrCat("F32 [", count, "]")});
  }
  std::vector<float> values(count);
  ConvertToF32(DType::kF32, tensor->bytes.data(), count, values.data());
  for (const float value : values) {
    if (value > 0 && std::isfinite(value)) continue;
    return DataError(
        {.file = file.path().string(), .key = name, .found = StrCat(value), .expected = "positive numbers"});
  }
  return std::vector<double>(values.begin(), values.end());
}

absl::Status ReadLongRope(const GgufFile& file, const std::string& architecture, ModelConfig& config) {
  RopeConfig& rope = config.rope;
  rope.kind = RopeKind::kLongRope;
  FTUNE_ASSIGN_OR_RETURN(rope.short_factors, ReadFactors(file, kShortTensor, config.RotaryDim() / 2));
  FTUNE_ASSIGN_OR_RETURN(rope.long_factors, ReadFactors(file, kLongTensor, config.RotaryDim() / 2));
  const std::string key = architecture + ".rope.scaling.original_context_length";
  FTUNE_ASSIGN_OR_RETURN(rope.original_max_position, file.Int(key));
  if (rope.original_max_position <= 1) {
    return DataError({.file = file.path().string(),
                      .key = key,
                      .found = StrCat(rope.original_max_position),
                      .expected = "an integer above 1"});
  }
  rope.factor = static_cast<double>(config.max_position) / static_cast<double>(rope.original_max_position);
  const double inferred =
      rope.factor <= 1
          ? 1.0
          : std::sqrt(1 + std::log(rope.factor) / std::log(static_cast<double>(rope.original_max_position)));
  FTUNE_ASSIGN_OR_RETURN(rope.attention_factor,
                         file.FloatOr(architecture + ".rope.scaling.attn_factor", inferred));
  return absl::OkStatus();
}

absl::Status CheckAttentionFactor(const GgufFile& file, const std::string& architecture) {
  const std::string key = architecture + ".rope.scaling.attn_factor";
  FTUNE_ASSIGN_OR_RETURN(const double factor, file.FloatOr(key, 1.0));
  if (factor == 1.0) return absl::OkStatus();
  return DataError({.file = file.path().string(),
                    .key = key,
                    .message = "the setting changes what the model computes and is not supported",
                    .found = StrCat(factor),
                    .expected = "1"});
}

}  // namespace

bool IsRopeTensor(std::string_view name) {
  return name == kGgufRopeFactors || name == kShortTensor || name == kLongTensor ||
         name.ends_with(".attn_rot_embd");  // an older form
}

std::vector<float> Llama3Divisors(const RopeConfig& rope, int64_t head_dim) {
  const double positions = static_cast<double>(rope.original_max_position);
  std::vector<float> divisors;
  for (int64_t i = 0; i < head_dim; i += 2) {
    const double frequency = std::pow(rope.theta, -static_cast<double>(i) / static_cast<double>(head_dim));
    const double wavelength = 2 * std::numbers::pi / frequency;
    double divisor = 1.0;
    if (wavelength > positions / rope.low_freq_factor) {
      divisor = rope.factor;
    } else if (wavelength >= positions / rope.high_freq_factor) {
      const double smooth =
          (positions / wavelength - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      divisor = 1.0 / ((1.0 - smooth) / rope.factor + smooth);
    }
    divisors.push_back(static_cast<float>(divisor));
  }
  return divisors;
}

absl::Status ReadGgufRopes(const GgufFile& file, const std::string& architecture, const Family& family,
                           ModelConfig& config) {
  const auto key = [&](const char* suffix) { return StrCat(architecture, ".rope.", suffix); };
  const int64_t head_dim = config.head_dim;
  RopeConfig& rope = config.rope;
  FTUNE_ASSIGN_OR_RETURN(rope.theta, file.FloatOr(key("freq_base"), family.default_theta));
  if (!(rope.theta > 0) || !std::isfinite(rope.theta)) {
    return DataError({.file = file.path().string(),
                      .key = key("freq_base"),
                      .found = StrCat(rope.theta),
                      .expected = "a positive number"});
  }
  FTUNE_ASSIGN_OR_RETURN(const int64_t rotated, file.IntOr(key("dimension_count"), head_dim));
  if (family.partial_rotary && rotated > 0 && rotated < head_dim && rotated % 2 == 0) {
    config.rotary_dim = rotated;
  } else if (rotated != head_dim) {
    return DataError({.file = file.path().string(),
                      .key = key("dimension_count"),
                      .message = "rotating a part of each head is not supported",
                      .found = StrCat(rotated),
                      .expected = StrCat(head_dim, ", the head's size")});
  }
  if (family.rope == RopeRule::kLocal) {
    FTUNE_ASSIGN_OR_RETURN(config.local_rope.theta, file.FloatOr(key("freq_base_swa"), 10000.0));
  }
  if (file.FindTensor(kLongTensor) != nullptr) return ReadLongRope(file, architecture, config);
  FTUNE_RETURN_IF_ERROR(CheckAttentionFactor(file, architecture));
  // As llama.cpp: without a type it is linear, and without a factor nothing is scaled.
  FTUNE_ASSIGN_OR_RETURN(const std::string type, file.StringOr(key("scaling.type"), "linear"));
  if (type != "none" && type != "linear") {
    return DataError({.file = file.path().string(),
                      .key = key("scaling.type"),
                      .message = "the rope type is not supported",
                      .found = StrCat("'", type, "'"),
                      .expected = "none or linear, or Llama 3's in rope_freqs.weight"});
  }
  FTUNE_ASSIGN_OR_RETURN(const double old_factor, file.FloatOr(key("scale_linear"), 1.0));
  FTUNE_ASSIGN_OR_RETURN(const double factor, file.FloatOr(key("scaling.factor"), old_factor));
  if (factor < 0 || !std::isfinite(factor)) {
    return DataError({.file = file.path().string(),
                      .key = key("scaling.factor"),
                      .found = StrCat(factor),
                      .expected = "a positive number"});
  }
  if (type == "linear" && factor != 0.0 && factor != 1.0) {
    rope.kind = RopeKind::kLinear;
    rope.factor = factor;
  }
  FTUNE_ASSIGN_OR_RETURN(const int64_t positions, file.IntOr(key("scaling.original_context_length"), 0));
  FTUNE_ASSIGN_OR_RETURN(rope.low_freq_factor, file.FloatOr(key(kGgufLowFrequency), 1.0));
  FTUNE_ASSIGN_OR_RETURN(rope.high_freq_factor, file.FloatOr(key(kGgufHighFrequency), 4.0));
  const GgufTensor* factors = file.FindTensor(kGgufRopeFactors);
  if (factors == nullptr) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(rope, ApplyFactors(file, *factors, rope, head_dim, positions));
  return absl::OkStatus();
}

}  // namespace ftune
