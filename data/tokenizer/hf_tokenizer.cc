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

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerJson(const std::filesystem::path& path,
                                                             TokenizerConfig config) {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json document, ReadJsonFile(path));
  const JsonPart root(document, path.string());
  const JsonPart model = root.Member("model");
  if (!model.value().is_object()) {
    return model.Wrong("the tokenizer's model, as tokenizer.json has it");
  }
  FTUNE_ASSIGN_OR_RETURN(BpeFromJson bpe, ReadBpe(model));
  PipelineParts parts;
  FTUNE_RETURN_IF_ERROR(ReadAddedTokens(root.Member("added_tokens"), *bpe.vocabulary, parts.added));
  FTUNE_RETURN_IF_ERROR(FindUnknown(model, parts.added, bpe));
  FTUNE_RETURN_IF_ERROR(ReadNormalizer(root.Member("normalizer"), parts.normalizers));
  FTUNE_RETURN_IF_ERROR(ReadPreTokenizer(root.Member("pre_tokenizer"), parts.pre_tokenizers));
  FTUNE_RETURN_IF_ERROR(ReadPostProcessor(root.Member("post_processor"), parts.prefix, parts.suffix));
  FTUNE_RETURN_IF_ERROR(ReadDecoder(root.Member("decoder"), parts.decoders));
  const bool decorated = !bpe.options.continuing_prefix.empty() || !bpe.options.end_suffix.empty();
  // The model decorates characters, so it has to see them.
  if (decorated) parts.pre_tokenizers.WriteByteLevel();
  bpe.options.byte_level = parts.pre_tokenizers.byte_level;
  parts.vocabulary = std::move(bpe.vocabulary);
  parts.model = BpeModel::WithMerges(*parts.vocabulary, bpe.merges, bpe.options);
  parts.chat_template = std::move(config.chat_template);
  if (!config.unk && !bpe.unknown_token.empty()) config.unk = bpe.unknown_token;
  return std::make_unique<PipelineTokenizer>(std::move(parts), config);
}

}  // namespace ftune
