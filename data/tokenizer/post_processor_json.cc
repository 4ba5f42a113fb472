#include "data/tokenizer/post_processor_json.h"

#include "base/error.h"
#include "data/tokenizer/vocabulary.h"

namespace ftune {
namespace {

absl::StatusOr<int32_t> ReadId(const JsonPart& part) {
  if (!part.value().is_number_unsigned() || part.value().get<uint64_t>() >= kMaxVocabulary) {
    return part.Wrong("a token id");
  }
  return part.value().get<int32_t>();
}

// ["[CLS]", 101]
absl::StatusOr<int32_t> ReadPair(const JsonPart& part) {
  FTUNE_ASSIGN_OR_RETURN(const auto pair, part.Elements());
  if (pair.size() != 2) return part.Wrong("a token and its id");
  return ReadId(pair[1]);
}

absl::Status ReadTemplate(const JsonPart& part, std::vector<int32_t>& prefix, std::vector<int32_t>& suffix) {
  FTUNE_ASSIGN_OR_RETURN(const auto pieces, part.Member("single").Elements());
  std::vector<int32_t> before, after;
  bool seen_text = false;
  for (const JsonPart& piece : pieces) {
    const JsonPart sequence = piece.Member("Sequence");
    if (!sequence.IsNull()) {
      FTUNE_ASSIGN_OR_RETURN(const std::string id, sequence.String("id"));
      if (id != "A" || seen_text) return piece.Wrong("the text once, as sequence A");
      seen_text = true;
      continue;
    }
    FTUNE_ASSIGN_OR_RETURN(const std::string name, piece.Member("SpecialToken").String("id"));
    FTUNE_ASSIGN_OR_RETURN(const auto ids,
                           part.Member("special_tokens").Member(name).Member("ids").Elements());
    for (const JsonPart& id : ids) {
      FTUNE_ASSIGN_OR_RETURN(const int32_t token, ReadId(id));
      (seen_text ? after : before).push_back(token);
    }
  }
  if (!seen_text) return part.Member("single").Wrong("the text, as sequence A");
  // What a later processor adds stands farther out.
  prefix.insert(prefix.begin(), before.begin(), before.end());
  suffix.insert(suffix.end(), after.begin(), after.end());
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadPostProcessor(const JsonPart& part, std::vector<int32_t>& prefix,
                               std::vector<int32_t>& suffix) {
  if (part.IsNull()) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const std::string type, part.Type({{"processors", "Sequence"},
                                                            {"single", "TemplateProcessing"},
                                                            {"cls", "BertProcessing"},
                                                            {"trim_offsets", "ByteLevel"}}));
  if (type == "Sequence") {
    FTUNE_ASSIGN_OR_RETURN(const auto elements, part.Member("processors").Elements());
    for (const JsonPart& element : elements)
      FTUNE_RETURN_IF_ERROR(ReadPostProcessor(element, prefix, suffix));
  } else if (type == "TemplateProcessing") {
    return ReadTemplate(part, prefix, suffix);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    FTUNE_ASSIGN_OR_RETURN(const int32_t cls, ReadPair(part.Member("cls")));
    FTUNE_ASSIGN_OR_RETURN(const int32_t sep, ReadPair(part.Member("sep")));
    prefix.insert(prefix.begin(), cls);
    suffix.push_back(sep);
  } else if (type != "ByteLevel") {  // ByteLevel trims offsets for show; ours say what a token covers
    return part.Member("type").Wrong(
        "one of Sequence, TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel",
        "this post-processor is not supported");
  }
  return absl::OkStatus();
}

}  // namespace ftune
