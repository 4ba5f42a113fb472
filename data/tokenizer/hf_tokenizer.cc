#include "data/tokenizer/hf_tokenizer.h"

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "data/tokenizer/bpe_json.h"
#include "data/tokenizer/decoder_json.h"
#include "data/tokenizer/normalizer_json.h"
#include "data/tokenizer/pipeline_tokenizer.h"
#include "data/tokenizer/post_processor_json.h"
#include "data/tokenizer/pre_tokenizer_json.h"
#include "data/tokenizer/unigram.h"
#include "data/tokenizer/unigram_json.h"

namespace ftune {
namespace {

absl::Status ReadAddedTokens(const JsonPart& part, const Vocabulary& vocabulary,
                             std::vector<AddedToken>& added) {
  if (part.IsNull()) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const auto elements, part.Elements());
  for (const JsonPart& element : elements) {
    FTUNE_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(element));
    // A token that the model has keeps the model's id.
    if (const auto id = vocabulary.Find(token.text)) {
      token.id = *id;
    } else if (token.id < vocabulary.size() && !vocabulary.Text(token.id).empty()) {
      return element.Wrong("an id of its own",
                           StrCat("the id ", token.id, " of the added token is that of \"",
                                  vocabulary.Text(token.id), "\" in model.vocab"));
    }
    added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

// The token of characters that are none, which may be an added token.
absl::Status FindUnknown(const JsonPart& model, const std::vector<AddedToken>& added, BpeFromJson& bpe) {
  if (bpe.unknown_token.empty() || bpe.options.unknown) return absl::OkStatus();
  for (const AddedToken& token : added) {
    if (token.text == bpe.unknown_token) bpe.options.unknown = token.id;
  }
  if (bpe.options.unknown) return absl::OkStatus();
  return model.Member("unk_token").Wrong("a token of model.vocab");
}

absl::Status AddBpe(const JsonPart& root, const JsonPart& model, PipelineParts& parts,
                    TokenizerConfig& config) {
  FTUNE_ASSIGN_OR_RETURN(BpeFromJson bpe, ReadBpe(model));
  FTUNE_RETURN_IF_ERROR(ReadAddedTokens(root.Member("added_tokens"), *bpe.vocabulary, parts.added));
  FTUNE_RETURN_IF_ERROR(FindUnknown(model, parts.added, bpe));
  const bool decorated = !bpe.options.continuing_prefix.empty() || !bpe.options.end_suffix.empty();
  // The model decorates characters, so it has to see them.
  if (decorated) parts.pre_tokenizers.WriteByteLevel();
  bpe.options.byte_level = parts.pre_tokenizers.byte_level;
  parts.vocabulary = std::move(bpe.vocabulary);
  parts.model = BpeModel::WithMerges(*parts.vocabulary, bpe.merges, bpe.options);
  if (!config.unk && !bpe.unknown_token.empty()) config.unk = bpe.unknown_token;
  return absl::OkStatus();
}

absl::Status AddUnigram(const JsonPart& root, const JsonPart& model, PipelineParts& parts,
                        TokenizerConfig& config) {
  FTUNE_ASSIGN_OR_RETURN(UnigramFromJson unigram, ReadUnigram(model));
  FTUNE_RETURN_IF_ERROR(ReadAddedTokens(root.Member("added_tokens"), *unigram.vocabulary, parts.added));
  // Its tokens are text, whatever the pre-tokenizer makes of that.
  parts.pre_tokenizers.WriteByteLevel();
  parts.vocabulary = std::move(unigram.vocabulary);
  if (!config.unk) config.unk = parts.vocabulary->Text(unigram.unknown);
  parts.model = std::make_unique<UnigramModel>(*parts.vocabulary, std::move(unigram.scores), unigram.unknown,
                                               unigram.byte_fallback);
  return absl::OkStatus();
}

// Old files do not name it.
absl::StatusOr<std::string> ModelType(const JsonPart& model) {
  if (model.Member("type").IsNull()) {
    if (!model.Member("merges").IsNull()) return std::string("BPE");
    if (model.Member("vocab").value().is_array()) return std::string("Unigram");
    if (!model.Member("max_input_chars_per_word").IsNull()) return std::string("WordPiece");
  }
  return model.String("type");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerJson(const std::filesystem::path& path,
                                                             TokenizerConfig config) {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json document, ReadJsonFile(path));
  const JsonPart root(document, path.string());
  const JsonPart model = root.Member("model");
  if (!model.value().is_object()) {
    return model.Wrong("the tokenizer's model, as tokenizer.json has it");
  }
  PipelineParts parts;
  FTUNE_RETURN_IF_ERROR(ReadNormalizer(root.Member("normalizer"), parts.normalizers));
  FTUNE_RETURN_IF_ERROR(ReadPreTokenizer(root.Member("pre_tokenizer"), parts.pre_tokenizers));
  FTUNE_RETURN_IF_ERROR(ReadPostProcessor(root.Member("post_processor"), parts.prefix, parts.suffix));
  FTUNE_RETURN_IF_ERROR(ReadDecoder(root.Member("decoder"), parts.decoders));
  FTUNE_ASSIGN_OR_RETURN(const std::string type, ModelType(model));
  if (type == "BPE") {
    FTUNE_RETURN_IF_ERROR(AddBpe(root, model, parts, config));
  } else if (type == "Unigram") {
    FTUNE_RETURN_IF_ERROR(AddUnigram(root, model, parts, config));
  } else {
    return model.Member("type").Wrong(
        "BPE or Unigram",
        StrCat("tokenizer models of the type ", type,
               " are not supported (language models that generate do not have them)"),
        type);
  }
  parts.chat_template = std::move(config.chat_template);
  return std::make_unique<PipelineTokenizer>(std::move(parts), config);
}

}  // namespace ftune
