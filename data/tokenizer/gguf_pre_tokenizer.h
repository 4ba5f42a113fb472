// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/pre_tokenizer.h"

namespace ftune {

// How a named one splits text.
struct GgufSplitRules {
  // Regular expressions, each splitting what the one before it left, matches and gaps alike.
  std::span<const std::string_view> patterns;
  bool nfc = false;  // normalise to NFC before
  bool ignore_merges = false;
  bool add_bos = false;
};

// `file` is named in errors. A name that is not known is an error that names it.
absl::StatusOr<GgufSplitRules> FindGgufSplitRules(std::string_view name, const std::string& file);

// The other way: the first name of those that split by these patterns. Nothing if there is none.
std::optional<std::string_view> NameGgufSplitRules(std::span<const std::string> patterns, bool nfc,
                                                   bool ignore_merges);

struct GgufPreTokenizer {
  std::vector<std::unique_ptr<Normalizer>> normalizers;
  PreTokenizerSteps steps;  // ends byte-level
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

// FindGgufSplitRules, compiled.
absl::StatusOr<GgufPreTokenizer> MakeGgufPreTokenizer(const std::string& name, const std::string& file);

}  // namespace ftune
