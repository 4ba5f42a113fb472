#include "data/tokenizer/bpe_json.h"

#include <optional>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "data/tokenizer/merge_text.h"

namespace ftune {
namespace {

using nlohmann::json;

absl::StatusOr<std::unique_ptr<Vocabulary>> ReadVocabulary(const JsonPart& part) {
  if (!part.value().is_object()) return part.Wrong("an object of tokens and their ids");
  std::vector<std::string> texts(part.value().size());
  for (const auto& [text, value] : part.value().items()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMaxVocabulary) {
      return part.Wrong(StrCat("an id below ", kMaxVocabulary), StrCat("the token \"", text, "\" has no id"),
                        Excerpt(value));
    }
    const auto id = value.get<size_t>();
    if (id >= texts.size()) texts.resize(id + 1);
    if (!texts[id].empty()) {
      return part.Wrong("", StrCat("the tokens \"", texts[id], "\" and \"", text, "\" have one id"),
                        StrCat(id));
    }
    texts[id] = text;
  }
  return std::make_unique<Vocabulary>(std::move(texts));
}

// ["a", "b"], or "a b" in files from before tokenizers 0.20.
std::optional<BpeModel::Merge> ReadMerge(const json& merge, size_t prefix, const Vocabulary& vocabulary) {
  if (merge.is_string()) return ParseMerge(merge.get_ref<const std::string&>(), prefix, vocabulary);
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
    return std::nullopt;
  return FindMerge(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), prefix,
                   vocabulary);
}

absl::Status ReadMerges(const JsonPart& part, BpeFromJson& bpe) {
  if (!part.value().is_array()) return part.Wrong("a list of merges");
  bpe.merges.reserve(part.value().size());
  for (size_t i = 0; i < part.value().size(); ++i) {
    const json& value = part.value()[i];
    if (value.is_string() && value.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto merge = ReadMerge(value, bpe.options.continuing_prefix.size(), *bpe.vocabulary);
    if (!merge) {
      return JsonPart(value, part.file(), part.Key(StrCat(i)))
          .Wrong("two tokens that together are a token of model.vocab, as [\"a\", \"b\"] or \"a b\"");
    }
    bpe.merges.push_back(*merge);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BpeFromJson> ReadBpe(const JsonPart& model) {
  const bool untyped_bpe = model.Member("type").IsNull() && !model.Member("merges").IsNull();
  FTUNE_ASSIGN_OR_RETURN(
      const std::string type,
      model.String("type", untyped_bpe ? std::optional<std::string>("BPE") : std::nullopt));
  if (type != "BPE")
    return model.Member("type").Wrong("BPE", "this type of tokenizer model is not supported");
  const JsonPart dropout = model.Member("dropout");
  if (!dropout.IsNull() && dropout.value() != 0) return dropout.Wrong("null", "BPE dropout is not supported");
  BpeFromJson bpe;
  FTUNE_ASSIGN_OR_RETURN(bpe.vocabulary, ReadVocabulary(model.Member("vocab")));
  FTUNE_ASSIGN_OR_RETURN(bpe.options.continuing_prefix, model.String("continuing_subword_prefix", ""));
  FTUNE_ASSIGN_OR_RETURN(bpe.options.end_suffix, model.String("end_of_word_suffix", ""));
  FTUNE_ASSIGN_OR_RETURN(bpe.options.fuse_unknown, model.Bool("fuse_unk", false));
  FTUNE_ASSIGN_OR_RETURN(bpe.options.byte_fallback, model.Bool("byte_fallback", false));
  FTUNE_ASSIGN_OR_RETURN(bpe.options.ignore_merges, model.Bool("ignore_merges", false));
  FTUNE_ASSIGN_OR_RETURN(bpe.unknown_token, model.String("unk_token", ""));
  bpe.options.unknown = bpe.vocabulary->Find(bpe.unknown_token);
  FTUNE_RETURN_IF_ERROR(ReadMerges(model.Member("merges"), bpe));
  return bpe;
}

}  // namespace ftune
