#include "data/tokenizer/gguf_pre_name.h"

#include <optional>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "data/tokenizer/gguf_pre_tokenizer.h"

namespace ftune {
namespace {

absl::Status Unknown(const JsonPart& part, std::string found) {
  return part.Wrong(
      "",
      "GGUF files only name the way text is split, and ftune knows no name for this one (export "
      "with --format hf and convert that folder with llama.cpp's convert_hf_to_gguf.py)",
      std::move(found));
}

// A list of steps, those of a Sequence in its place.
absl::Status Flatten(const JsonPart& part, const std::string& list, std::vector<JsonPart>& steps) {
  if (part.IsNull()) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::string type, part.String("type"));
  if (type != "Sequence") {
    steps.push_back(part);
    return absl::OkStatus();
  }
  FTUNE_ASSIGN_OR_RETURN(const auto elements, part.Member(list).Elements());
  for (const JsonPart& element : elements) FTUNE_RETURN_IF_ERROR(Flatten(element, list, steps));
  return absl::OkStatus();
}

absl::StatusOr<bool> ReadNfc(const JsonPart& normalizer) {
  std::vector<JsonPart> steps;
  FTUNE_RETURN_IF_ERROR(Flatten(normalizer, "normalizers", steps));
  for (const JsonPart& step : steps) {
    FTUNE_ASSIGN_OR_RETURN(const std::string type, step.String("type"));
    if (type != "NFC") return Unknown(step, StrCat("the normalizer ", type));
  }
  return !steps.empty();
}

// The pattern of a step; nothing where it does not split.
absl::StatusOr<std::optional<std::string>> ReadStepPattern(const JsonPart& step) {
  FTUNE_ASSIGN_OR_RETURN(const std::string type, step.String("type"));
  if (type == "ByteLevel") {
    FTUNE_ASSIGN_OR_RETURN(const bool prefix_space, step.Bool("add_prefix_space"));
    if (prefix_space) return Unknown(step, "add_prefix_space");
    FTUNE_ASSIGN_OR_RETURN(const bool split, step.Bool("use_regex", true));
    if (split) return std::string(kGpt2Pattern);
    return std::nullopt;
  }
  if (type == "Digits") {
    FTUNE_ASSIGN_OR_RETURN(const bool individual, step.Bool("individual_digits"));
    return std::string(individual ? R"(\p{N})" : R"(\p{N}+)");
  }
  if (type == "Split") {
    FTUNE_ASSIGN_OR_RETURN(const std::string behavior, step.String("behavior"));
    FTUNE_ASSIGN_OR_RETURN(const bool invert, step.Bool("invert", false));
    const JsonPart regex = step.Member("pattern").Member("Regex");
    if (behavior != "Isolated" || invert || regex.IsNull()) return Unknown(step, step.value().dump());
    FTUNE_ASSIGN_OR_RETURN(std::string pattern, step.Member("pattern").String("Regex"));
    return pattern;
  }
  return Unknown(step, StrCat("the pre-tokenizer ", type));
}

}  // namespace

absl::StatusOr<bool> IsByteLevel(const JsonPart& pre_tokenizer) {
  std::vector<JsonPart> steps;
  FTUNE_RETURN_IF_ERROR(Flatten(pre_tokenizer, "pretokenizers", steps));
  if (steps.empty()) return false;
  FTUNE_ASSIGN_OR_RETURN(const std::string type, steps.back().String("type"));
  return type == "ByteLevel";
}

absl::StatusOr<std::string> FindGgufPreName(const JsonPart& tokenizer) {
  FTUNE_ASSIGN_OR_RETURN(const bool nfc, ReadNfc(tokenizer.Member("normalizer")));
  FTUNE_ASSIGN_OR_RETURN(const bool ignore_merges, tokenizer.Member("model").Bool("ignore_merges", false));
  const JsonPart pre_tokenizer = tokenizer.Member("pre_tokenizer");
  std::vector<JsonPart> steps;
  FTUNE_RETURN_IF_ERROR(Flatten(pre_tokenizer, "pretokenizers", steps));
  std::vector<std::string> patterns;
  for (const JsonPart& step : steps) {
    FTUNE_ASSIGN_OR_RETURN(std::optional<std::string> pattern, ReadStepPattern(step));
    if (pattern) patterns.push_back(*std::move(pattern));
  }
  const auto name = NameGgufSplitRules(patterns, nfc, ignore_merges);
  if (name) return std::string(*name);
  return Unknown(pre_tokenizer, StrCat(StrJoin(patterns, " then "), nfc ? ", after NFC" : "",
                                       ignore_merges ? ", with ignore_merges" : ""));
}

}  // namespace ftune
