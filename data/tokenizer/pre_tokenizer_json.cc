#include "data/tokenizer/pre_tokenizer_json.h"

#include "base/error.h"
#include "data/tokenizer/json_pattern.h"
#include "data/tokenizer/unicode_class.h"

namespace ftune {
namespace {

absl::StatusOr<SplitBehavior> ReadBehavior(const JsonPart& part,
                                           std::optional<std::string> fallback = std::nullopt) {
  FTUNE_ASSIGN_OR_RETURN(const std::string name, part.String("behavior", std::move(fallback)));
  const auto behavior = ParseSplitBehavior(name);
  if (behavior) return *behavior;
  return part.Member("behavior")
      .Wrong("one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

absl::Status ReadMetaspace(const JsonPart& part, PreTokenizerSteps& steps) {
  FTUNE_ASSIGN_OR_RETURN(const char32_t replacement, part.Char("replacement"));
  // Files from before prepend_scheme have add_prefix_space.
  FTUNE_ASSIGN_OR_RETURN(const bool prefix, part.Bool("add_prefix_space", true));
  FTUNE_ASSIGN_OR_RETURN(const std::string name, part.String("prepend_scheme", prefix ? "always" : "never"));
  FTUNE_ASSIGN_OR_RETURN(const bool split, part.Bool("split", true));
  PrependScheme scheme;
  if (name == "first") {
    scheme = PrependScheme::kFirst;
  } else if (name == "never") {
    scheme = PrependScheme::kNever;
  } else if (name == "always") {
    scheme = PrependScheme::kAlways;
  } else {
    return part.Member("prepend_scheme").Wrong("first, never or always");
  }
  steps.Add(MakeMetaspace(replacement, scheme));
  if (split) steps.Add(MakeCharSplit(replacement, SplitBehavior::kMergedWithNext));
  return absl::OkStatus();
}

}  // namespace

absl::Status AddByteLevel(bool prefix_space, bool split, PreTokenizerSteps& steps) {
  if (prefix_space) steps.Add(MakePrefixSpace());
  if (split) {
    FTUNE_ASSIGN_OR_RETURN(Regex pattern, Regex::Compile(kGpt2Pattern));
    steps.Add(MakeSplit(std::move(pattern), SplitBehavior::kIsolated, false));
  }
  steps.WriteByteLevel();
  steps.byte_level = true;
  return absl::OkStatus();
}

absl::Status ReadPreTokenizer(const JsonPart& part, PreTokenizerSteps& steps) {
  if (part.IsNull()) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::string type, part.Type({{"pretokenizers", "Sequence"},
                                                            {"replacement", "Metaspace"},
                                                            {"trim_offsets", "ByteLevel"},
                                                            {"pattern", "Split"},
                                                            {"individual_digits", "Digits"},
                                                            {"delimiter", "CharDelimiterSplit"},
                                                            {"length", "FixedLength"},
                                                            {"behavior", "Punctuation"}}));
  if (type == "Sequence") {
    FTUNE_ASSIGN_OR_RETURN(const auto elements, part.Member("pretokenizers").Elements());
    for (const JsonPart& element : elements) FTUNE_RETURN_IF_ERROR(ReadPreTokenizer(element, steps));
  } else if (type == "ByteLevel") {
    FTUNE_ASSIGN_OR_RETURN(const bool prefix_space, part.Bool("add_prefix_space"));
    FTUNE_ASSIGN_OR_RETURN(const bool split, part.Bool("use_regex", true));
    return AddByteLevel(prefix_space, split, steps);
  } else if (type == "Split") {
    FTUNE_ASSIGN_OR_RETURN(Regex pattern, CompilePattern(part.Member("pattern")));
    FTUNE_ASSIGN_OR_RETURN(const SplitBehavior behavior, ReadBehavior(part));
    FTUNE_ASSIGN_OR_RETURN(const bool invert, part.Bool("invert", false));
    steps.Add(MakeSplit(std::move(pattern), behavior, invert));
  } else if (type == "Metaspace") {
    return ReadMetaspace(part, steps);
  } else if (type == "Digits") {
    FTUNE_ASSIGN_OR_RETURN(const bool individual, part.Bool("individual_digits"));
    steps.Add(
        MakeClassSplit(IsUnicodeNumeric, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous));
  } else if (type == "Punctuation") {
    FTUNE_ASSIGN_OR_RETURN(const SplitBehavior behavior, ReadBehavior(part, "Isolated"));
    steps.Add(MakeClassSplit(IsPunctuation, behavior));
  } else if (type == "Whitespace") {
    steps.Add(MakeWhitespace());
  } else if (type == "WhitespaceSplit") {
    steps.Add(MakeClassSplit(IsUnicodeSpace, SplitBehavior::kRemoved));
  } else if (type == "BertPreTokenizer") {
    steps.Add(MakeClassSplit(IsUnicodeSpace, SplitBehavior::kRemoved));
    steps.Add(MakeClassSplit(IsPunctuation, SplitBehavior::kIsolated));
  } else if (type == "CharDelimiterSplit" || type == "Delimiter") {
    FTUNE_ASSIGN_OR_RETURN(const char32_t delimiter, part.Char("delimiter"));
    steps.Add(MakeCharSplit(delimiter, SplitBehavior::kRemoved));
  } else if (type == "UnicodeScripts") {
    steps.Add(MakeUnicodeScripts());
  } else if (type == "FixedLength") {
    FTUNE_ASSIGN_OR_RETURN(const int64_t length, part.Int("length", 5));
    if (length < 1) return part.Member("length").Wrong("1 or more");
    steps.Add(MakeFixedLength(static_cast<size_t>(length)));
  } else {
    return part.Member("type").Wrong(
        "one of Sequence, ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, "
        "BertPreTokenizer, CharDelimiterSplit, UnicodeScripts, FixedLength",
        "this pre-tokenizer is not supported");
  }
  return absl::OkStatus();
}

}  // namespace ftune
