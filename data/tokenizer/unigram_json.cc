#include "data/tokenizer/unigram_json.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<UnigramFromJson> ReadUnigram(const JsonPart& model) {
  const JsonPart vocabulary = model.Member("vocab");
  const nlohmann::json& pairs = vocabulary.value();
  if (!pairs.is_array() || pairs.empty() || pairs.size() > kMaxVocabulary) {
    return vocabulary.Wrong("a list of [token, score]");
  }
  UnigramFromJson unigram;
  std::vector<std::string> texts;
  texts.reserve(pairs.size());
  unigram.scores.reserve(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    const nlohmann::json& pair = pairs[i];
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_number()) {
      return JsonPart(pair, model.file(), vocabulary.Key(StrCat(i))).Wrong("[token, score]");
    }
    texts.push_back(pair[0].get<std::string>());
    unigram.scores.push_back(pair[1].get<double>());
  }
  unigram.vocabulary = std::make_unique<Vocabulary>(std::move(texts));
  FTUNE_ASSIGN_OR_RETURN(const int64_t unknown, model.Int("unk_id"));
  if (unknown < 0 || unknown >= unigram.vocabulary->size()) {
    return model.Member("unk_id").Wrong(StrCat("an id below ", unigram.vocabulary->size()));
  }
  unigram.unknown = static_cast<int32_t>(unknown);
  FTUNE_ASSIGN_OR_RETURN(unigram.byte_fallback, model.Bool("byte_fallback", false));
  return unigram;
}

}  // namespace ftune
