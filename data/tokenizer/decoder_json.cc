#include "data/tokenizer/decoder_json.h"

#include "base/error.h"
#include "data/tokenizer/json_pattern.h"

namespace ftune {

absl::Status ReadDecoder(const JsonPart& part, std::vector<std::unique_ptr<Decoder>>& steps) {
  if (part.IsNull()) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::string type, part.Type({{"decoders", "Sequence"},
                                                            {"pattern", "Replace"},
                                                            {"start", "Strip"},
                                                            {"replacement", "Metaspace"},
                                                            {"suffix", "BPEDecoder"}}));
  if (type == "Sequence") {
    FTUNE_ASSIGN_OR_RETURN(const auto elements, part.Member("decoders").Elements());
    for (const JsonPart& element : elements) FTUNE_RETURN_IF_ERROR(ReadDecoder(element, steps));
  } else if (type == "ByteLevel") {
    steps.push_back(MakeByteLevelDecoder());
  } else if (type == "Replace") {
    FTUNE_ASSIGN_OR_RETURN(Regex pattern, CompilePattern(part.Member("pattern")));
    FTUNE_ASSIGN_OR_RETURN(std::string content, part.String("content"));
    steps.push_back(MakeReplaceDecoder(std::move(pattern), std::move(content)));
  } else if (type == "ByteFallback") {
    steps.push_back(MakeByteFallbackDecoder());
  } else if (type == "Fuse") {
    steps.push_back(MakeFuseDecoder());
  } else if (type == "Strip") {
    FTUNE_ASSIGN_OR_RETURN(const char32_t content, part.Char("content"));
    FTUNE_ASSIGN_OR_RETURN(const int64_t start, part.Int("start"));
    FTUNE_ASSIGN_OR_RETURN(const int64_t stop, part.Int("stop"));
    steps.push_back(MakeStripDecoder(content, start, stop));
  } else if (type == "Metaspace") {
    FTUNE_ASSIGN_OR_RETURN(const char32_t replacement, part.Char("replacement"));
    FTUNE_ASSIGN_OR_RETURN(const bool prefix, part.Bool("add_prefix_space", true));
    FTUNE_ASSIGN_OR_RETURN(const std::string scheme,
                           part.String("prepend_scheme", prefix ? "always" : "never"));
    steps.push_back(MakeMetaspaceDecoder(replacement, scheme != "never"));
  } else if (type == "BPEDecoder") {
    FTUNE_ASSIGN_OR_RETURN(std::string suffix, part.String("suffix", "</w>"));
    steps.push_back(MakeBpeDecoder(std::move(suffix)));
  } else {
    return part.Member("type").Wrong(
        "one of Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, BPEDecoder",
        "this decoder is not supported");
  }
  return absl::OkStatus();
}

}  // namespace ftune
