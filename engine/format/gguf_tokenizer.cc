#include "engine/format/gguf_tokenizer.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "data/tokenizer/gguf_pre_tokenizer.h"
#include "engine/format/spm_merges.h"

namespace ftune {
namespace {

using nlohmann::json;

constexpr char kSpace[] = "\xe2\x96\x81";  // U+2581, SentencePiece's space

// llama.cpp's llama_token_type.
enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct SpecialRole {
  const char* key;  // in tokenizer_config.json
  const char* gguf_key;
};
constexpr SpecialRole kRoles[] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                  {"eos_token", "tokenizer.ggml.eos_token_id"},
                                  {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                  {"pad_token", "tokenizer.ggml.padding_token_id"}};

struct GgufVocabulary {
  std::vector<std::string_view> tokens;
  std::vector<int64_t> types;  // as many
};

absl::StatusOr<GgufVocabulary> ReadVocabulary(const GgufFile& file) {
  GgufVocabulary vocabulary;
  FTUNE_ASSIGN_OR_RETURN(vocabulary.tokens, file.Strings("tokenizer.ggml.tokens"));
  vocabulary.types.assign(vocabulary.tokens.size(), kNormal);
  if (file.Has("tokenizer.ggml.token_type")) {
    FTUNE_ASSIGN_OR_RETURN(vocabulary.types, file.Ints("tokenizer.ggml.token_type"));
  }
  if (vocabulary.types.size() != vocabulary.tokens.size()) {
    return DataError({.file = file.path().string(),
                      .key = "tokenizer.ggml.token_type",
                      .found = StrCat(vocabulary.types.size(), " types"),
                      .expected = StrCat(vocabulary.tokens.size(), ", one for each token")});
  }
  return vocabulary;
}

// llama.cpp's converter fills ids that have no token, up to the rows of the embedding.
bool IsFiller(const GgufVocabulary& vocabulary, size_t id) {
  const int64_t type = vocabulary.types[id];
  return (type == kUnused || type == kUnknown) && vocabulary.tokens[id] == StrCat("[PAD", id, "]");
}

absl::StatusOr<json> VocabularyJson(const GgufVocabulary& vocabulary, const std::string& file) {
  json::object_t vocab;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (IsFiller(vocabulary, id)) continue;
    if (!vocab.emplace(vocabulary.tokens[id], id).second) {
      return DataError({.file = file,
                        .key = "tokenizer.ggml.tokens",
                        .message = StrCat("two tokens have the same text, the second being ", id),
                        .found = std::string(vocabulary.tokens[id])});
    }
  }
  return json(std::move(vocab));
}

json AddedTokens(const GgufVocabulary& vocabulary) {
  json added = json::array();
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const int64_t type = vocabulary.types[id];
    const bool is_added = type == kControl || type == kUserDefined || type == kUnknown;
    if (!is_added || IsFiller(vocabulary, id)) continue;
    added.push_back({{"id", id},
                     {"content", vocabulary.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", type != kUserDefined}});
  }
  return added;
}

absl::StatusOr<std::optional<std::string>> RoleText(const GgufFile& file, const char* gguf_key,
                                                    const GgufVocabulary& vocabulary) {
  FTUNE_ASSIGN_OR_RETURN(const int64_t id, file.IntOr(gguf_key, -1));
  if (id < 0) return std::nullopt;
  if (id >= static_cast<int64_t>(vocabulary.tokens.size())) {
    return DataError(
        {.file = file.path().string(),
         .key = gguf_key,
         .found = StrCat(id),
         .expected = StrCat("an id below ", vocabulary.tokens.size(), ", the number of tokens")});
  }
  return std::string(vocabulary.tokens[id]);
}

// A post-processor that puts BOS before and EOS behind, as asked for; null if neither.
absl::StatusOr<json> Template(const GgufFile& file, const GgufVocabulary& vocabulary, bool bos_by_default) {
  FTUNE_ASSIGN_OR_RETURN(const bool add_bos, file.BoolOr("tokenizer.ggml.add_bos_token", bos_by_default));
  FTUNE_ASSIGN_OR_RETURN(const bool add_eos, file.BoolOr("tokenizer.ggml.add_eos_token", false));
  using Text = std::optional<std::string>;
  FTUNE_ASSIGN_OR_RETURN(const Text bos, RoleText(file, "tokenizer.ggml.bos_token_id", vocabulary));
  FTUNE_ASSIGN_OR_RETURN(const Text eos, RoleText(file, "tokenizer.ggml.eos_token_id", vocabulary));
  json special = json::object();
  const auto piece = [&](const std::string& token, const char* id_key, int type) {
    const int64_t id = file.Int(id_key).value_or(0);  // RoleText read it
    special[token] = {{"id", token}, {"ids", json::array({id})}, {"tokens", json::array({token})}};
    return json{{"SpecialToken", {{"id", token}, {"type_id", type}}}};
  };
  json single = json::array();
  json pair = json::array();
  for (int type = 0; type < 2; ++type) {
    json part = json::array();
    if (add_bos && bos) part.push_back(piece(*bos, "tokenizer.ggml.bos_token_id", type));
    part.push_back({{"Sequence", {{"id", type == 0 ? "A" : "B"}, {"type_id", type}}}});
    if (add_eos && eos) part.push_back(piece(*eos, "tokenizer.ggml.eos_token_id", type));
    if (type == 0) single = part;
    pair.insert(pair.end(), part.begin(), part.end());
  }
  if (special.empty()) return json(nullptr);
  return json{
      {"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

json ByteLevel(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", use_regex}};
}

json Sequence(const char* key, json items) { return {{"type", "Sequence"}, {key, std::move(items)}}; }

absl::StatusOr<json> ByteLevelTokenizer(const GgufFile& file, const GgufVocabulary& vocabulary) {
  FTUNE_ASSIGN_OR_RETURN(const std::string pre, file.StringOr("tokenizer.ggml.pre", ""));
  FTUNE_ASSIGN_OR_RETURN(const GgufSplitRules rules, FindGgufSplitRules(pre, file.path().string()));
  FTUNE_ASSIGN_OR_RETURN(const bool prefix, file.BoolOr("tokenizer.ggml.add_space_prefix", false));
  json normalizers = json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", " "}});
  if (rules.nfc) normalizers.push_back({{"type", "NFC"}});
  json steps = json::array();
  for (const std::string_view pattern : rules.patterns) {
    steps.push_back(
        {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  steps.push_back(ByteLevel(false));

  FTUNE_ASSIGN_OR_RETURN(json vocab, VocabularyJson(vocabulary, file.path().string()));
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string_view> merges, file.Strings("tokenizer.ggml.merges"));
  FTUNE_ASSIGN_OR_RETURN(const json ends, Template(file, vocabulary, rules.add_bos));
  json post = ByteLevel(true);
  if (!ends.is_null()) post = Sequence("processors", json::array({post, ends}));
  return json{
      {"normalizer", normalizers.empty() ? json(nullptr) : Sequence("normalizers", std::move(normalizers))},
      {"pre_tokenizer", Sequence("pretokenizers", std::move(steps))},
      {"post_processor", std::move(post)},
      {"decoder", ByteLevel(true)},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", rules.ignore_merges},
        {"vocab", std::move(vocab)},
        {"merges", merges}}}};
}

// As transformers' converter for Llama (convert_slow_tokenizer): BPE over characters with bytes for what is
// unknown.
absl::StatusOr<json> SentencePieceTokenizer(const GgufFile& file, const GgufVocabulary& vocabulary) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<float> scores, file.Floats("tokenizer.ggml.scores"));
  if (scores.size() != vocabulary.tokens.size()) {
    return DataError({.file = file.path().string(),
                      .key = "tokenizer.ggml.scores",
                      .found = StrCat(scores.size(), " scores"),
                      .expected = StrCat(vocabulary.tokens.size(), ", one for each token")});
  }
  std::vector<ScoredPiece> pieces;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!std::isfinite(scores[id])) {
      return DataError({.file = file.path().string(),
                        .key = "tokenizer.ggml.scores",
                        .message = StrCat("the score of token ", id, " is not a number")});
    }
    if (vocabulary.types[id] == kNormal) pieces.push_back({vocabulary.tokens[id], scores[id], id});
  }
  using Text = std::optional<std::string>;
  FTUNE_ASSIGN_OR_RETURN(const Text unknown, RoleText(file, "tokenizer.ggml.unknown_token_id", vocabulary));
  FTUNE_ASSIGN_OR_RETURN(const bool prefix, file.BoolOr("tokenizer.ggml.add_space_prefix", true));
  FTUNE_ASSIGN_OR_RETURN(json vocab, VocabularyJson(vocabulary, file.path().string()));
  FTUNE_ASSIGN_OR_RETURN(json post, Template(file, vocabulary, true));

  json normalizers = json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}});
  json decoders = json::array({json{{"type", "Replace"}, {"pattern", {{"String", kSpace}}}, {"content", " "}},
                               json{{"type", "ByteFallback"}}, json{{"type", "Fuse"}}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return json{{"normalizer", Sequence("normalizers", std::move(normalizers))},
              {"pre_tokenizer", nullptr},
              {"post_processor", std::move(post)},
              {"decoder", Sequence("decoders", std::move(decoders))},
              {"model",
               {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", unknown ? json(*unknown) : json(nullptr)},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", true},
                {"byte_fallback", true},
                {"ignore_merges", false},
                {"vocab", std::move(vocab)},
                {"merges", SentencePieceMerges(pieces)}}}};
}

absl::StatusOr<json> MakeTokenizerConfig(const GgufFile& file, const GgufVocabulary& vocabulary) {
  json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  using Text = std::optional<std::string>;
  for (const SpecialRole& role : kRoles) {
    FTUNE_ASSIGN_OR_RETURN(const Text text, RoleText(file, role.gguf_key, vocabulary));
    if (text) config[role.key] = *text;
  }
  FTUNE_ASSIGN_OR_RETURN(const std::string chat_template, file.StringOr("tokenizer.chat_template", ""));
  if (!chat_template.empty()) config["chat_template"] = chat_template;
  FTUNE_ASSIGN_OR_RETURN(const std::string architecture, file.StringOr("general.architecture", ""));
  FTUNE_ASSIGN_OR_RETURN(const int64_t context, file.IntOr(architecture + ".context_length", 0));
  if (context > 0) config["model_max_length"] = context;
  return config;
}

// Text that is not UTF-8, which no sound file has, is replaced rather than thrown at.
std::string Dump(const json& value) {
  return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace

absl::StatusOr<TokenizerFiles> MakeTokenizerFiles(const GgufFile& file) {
  FTUNE_ASSIGN_OR_RETURN(const std::string model, file.String("tokenizer.ggml.model"));
  FTUNE_ASSIGN_OR_RETURN(const GgufVocabulary vocabulary, ReadVocabulary(file));
  if (model != "gpt2" && model != "llama") {
    return DataError({.file = file.path().string(),
                      .key = "tokenizer.ggml.model",
                      .message = "the kind of tokenizer is not supported",
                      .found = StrCat("'", model, "'"),
                      .expected = "gpt2 (byte-level BPE) or llama (SentencePiece)"});
  }
  FTUNE_ASSIGN_OR_RETURN(json tokenizer, model == "gpt2" ? ByteLevelTokenizer(file, vocabulary)
                                                         : SentencePieceTokenizer(file, vocabulary));
  tokenizer["version"] = "1.0";
  tokenizer["truncation"] = nullptr;
  tokenizer["padding"] = nullptr;
  tokenizer["added_tokens"] = AddedTokens(vocabulary);
  FTUNE_ASSIGN_OR_RETURN(const json config, MakeTokenizerConfig(file, vocabulary));
  return TokenizerFiles{Dump(tokenizer), Dump(config)};
}

}  // namespace ftune
