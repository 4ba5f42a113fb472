#include "engine/format/tensor_names.h"

#include <array>
#include <optional>

#include "base/strings.h"

namespace ftune {
namespace {

struct Prefix {
  std::string_view file;
  std::string_view model;
};
// Gemma 3's wrapper: what transformers up to 4.51 and from 5 on writes, and what those between wrote.
constexpr std::array<Prefix, 4> kTextPrefixes = {{{"language_model.model.", "model."},
                                                  {"language_model.lm_head.", "lm_head."},
                                                  {"model.language_model.", "model."},
                                                  {"lm_head.", "lm_head."}}};
// OpenAI's GPT-2 files were saved from the model without its head.
constexpr std::array<Prefix, 4> kGpt2Prefixes = {{{"wte.", "transformer.wte."},
                                                  {"wpe.", "transformer.wpe."},
                                                  {"h.", "transformer.h."},
                                                  {"ln_f.", "transformer.ln_f."}}};
constexpr std::array<std::string_view, 3> kBuffers = {"rotary_emb.inv_freq", ".attn.bias",
                                                      ".attn.masked_bias"};

template <size_t N>
std::optional<std::string> Replace(std::string_view name, const std::array<Prefix, N>& prefixes) {
  for (const Prefix& prefix : prefixes) {
    if (name.starts_with(prefix.file)) return StrCat(prefix.model, name.substr(prefix.file.size()));
  }
  return std::nullopt;
}

}  // namespace

std::string ModelTensorName(std::string_view name, const Family& family, bool text_only) {
  for (const std::string_view buffer : kBuffers) {
    if (name.ends_with(buffer)) return "";
  }
  if (text_only) return Replace(name, kTextPrefixes).value_or("");
  if (family.model_type == "gpt2") return Replace(name, kGpt2Prefixes).value_or(std::string(name));
  return std::string(name);
}

}  // namespace ftune
