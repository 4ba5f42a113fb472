#include "data/tokenizer/unigram_json.h"

#include <charconv>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

// The number that `tokenizers` reads where a correct reader reads `value`. Its JSON library (serde_json
// without float_roundtrip) takes the digits as an integer and multiplies or divides that by a power of ten,
// which rounds twice; where two ways to cut a text are equally likely, the last bit decides.
double AsTokenizersReads(double value) {
  char text[32];
  const auto written =
      std::to_chars(text, text + sizeof(text), std::abs(value), std::chars_format::scientific);
  uint64_t digits = 0;
  int exponent = 0;
  const char* at = text;
  for (bool fraction = false; at != written.ptr && *at != 'e'; ++at) {
    if (*at == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    exponent -= fraction;
  }
  int power = 0;
  if (at != written.ptr) std::from_chars(at + (at[1] == '+' ? 2 : 1), written.ptr, power);
  exponent += power;
  if (std::abs(exponent) > 308) return value;
  double factor = 0;
  const std::string factor_text = StrCat("1e", std::abs(exponent));
  std::from_chars(factor_text.data(), factor_text.data() + factor_text.size(), factor);
  const double read =
      exponent < 0 ? static_cast<double>(digits) / factor : static_cast<double>(digits) * factor;
  return value < 0 ? -read : read;
}

}  // namespace

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
    unigram.scores.push_back(AsTokenizersReads(pair[1].get<double>()));
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
