#include "data/tokenizer/normalizer_json.h"

#include "base/error.h"
#include "data/tokenizer/json_pattern.h"

namespace ftune {

absl::Status ReadNormalizer(const JsonPart& part, std::vector<std::unique_ptr<Normalizer>>& steps) {
  if (part.IsNull()) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::string type, part.String("type"));
  if (type == "Sequence") {
    FTUNE_ASSIGN_OR_RETURN(const auto elements, part.Member("normalizers").Elements());
    for (const JsonPart& element : elements) FTUNE_RETURN_IF_ERROR(ReadNormalizer(element, steps));
  } else if (type == "NFC") {
    steps.push_back(MakeUnicodeForm(UnicodeForm::kNfc));
  } else if (type == "NFD") {
    steps.push_back(MakeUnicodeForm(UnicodeForm::kNfd));
  } else if (type == "NFKC") {
    steps.push_back(MakeUnicodeForm(UnicodeForm::kNfkc));
  } else if (type == "NFKD") {
    steps.push_back(MakeUnicodeForm(UnicodeForm::kNfkd));
  } else if (type == "Lowercase") {
    steps.push_back(MakeLowercase());
  } else if (type == "StripAccents") {
    steps.push_back(MakeStripAccents());
  } else if (type == "Strip") {
    FTUNE_ASSIGN_OR_RETURN(const bool left, part.Bool("strip_left"));
    FTUNE_ASSIGN_OR_RETURN(const bool right, part.Bool("strip_right"));
    steps.push_back(MakeStrip(left, right));
  } else if (type == "Replace") {
    const JsonPart pattern = part.Member("pattern");
    FTUNE_ASSIGN_OR_RETURN(JsonPattern read, ReadPattern(pattern));
    FTUNE_ASSIGN_OR_RETURN(std::string content, part.String("content"));
    if (read.literal) {
      steps.push_back(MakeReplaceText(std::move(read.text), std::move(content)));
    } else {
      FTUNE_ASSIGN_OR_RETURN(Regex regex, CompilePattern(pattern));
      steps.push_back(MakeReplace(std::move(regex), std::move(content)));
    }
  } else if (type == "Prepend") {
    FTUNE_ASSIGN_OR_RETURN(std::string prefix, part.String("prepend"));
    steps.push_back(MakePrepend(std::move(prefix)));
  } else if (type == "ByteLevel") {
    steps.push_back(MakeByteLevelNormalizer());
  } else {
    return part.Member("type").Wrong(
        "one of Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, Prepend, ByteLevel",
        "this normalizer is not supported");
  }
  return absl::OkStatus();
}

}  // namespace ftune
