#include "data/tokenizer/normalizer_json.h"

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "data/tokenizer/json_pattern.h"

namespace ftune {
namespace {

absl::Status ReadPrecompiled(const JsonPart& part, std::vector<std::unique_ptr<Normalizer>>& steps) {
  if (!part.value().is_string()) return part.Wrong("a table of characters in base64");
  std::string bytes;
  std::unique_ptr<Normalizer> step;
  if (absl::Base64Unescape(part.value().get_ref<const std::string&>(), &bytes)) step = MakePrecompiled(bytes);
  if (step == nullptr) return part.Wrong("a table of characters as SentencePiece has it, in base64");
  steps.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status ReadBert(const JsonPart& part, std::vector<std::unique_ptr<Normalizer>>& steps) {
  FTUNE_ASSIGN_OR_RETURN(const bool clean, part.Bool("clean_text"));
  FTUNE_ASSIGN_OR_RETURN(const bool chinese, part.Bool("handle_chinese_chars"));
  FTUNE_ASSIGN_OR_RETURN(const bool lowercase, part.Bool("lowercase"));
  FTUNE_ASSIGN_OR_RETURN(const bool strip_accents, part.Bool("strip_accents", lowercase));
  if (clean) steps.push_back(MakeBertCleanText());
  if (chinese) steps.push_back(MakeSpaceAroundHan());
  if (strip_accents) {
    steps.push_back(MakeUnicodeForm(UnicodeForm::kNfd));
    steps.push_back(MakeStripNonspacingMarks());
  }
  if (lowercase) steps.push_back(MakeLowercase());
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadNormalizer(const JsonPart& part, std::vector<std::unique_ptr<Normalizer>>& steps) {
  if (part.IsNull()) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::string type, part.Type({{"normalizers", "Sequence"},
                                                            {"strip_left", "Strip"},
                                                            {"pattern", "Replace"},
                                                            {"prepend", "Prepend"},
                                                            {"precompiled_charsmap", "Precompiled"},
                                                            {"clean_text", "BertNormalizer"}}));
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
  } else if (type == "Precompiled") {
    return ReadPrecompiled(part.Member("precompiled_charsmap"), steps);
  } else if (type == "Nmt") {
    steps.push_back(MakeNmt());
  } else if (type == "BertNormalizer" || type == "Bert") {
    return ReadBert(part, steps);
  } else {
    return part.Member("type").Wrong(
        "one of Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Replace, Prepend, "
        "Precompiled, Nmt, BertNormalizer, ByteLevel",
        "this normalizer is not supported");
  }
  return absl::OkStatus();
}

}  // namespace ftune
