#include "data/tokenizer/gguf_vocab.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/gguf.h"
#include "base/strings.h"
#include "data/tokenizer/gguf_pre_tokenizer.h"
#include "data/tokenizer/merge_text.h"
#include "data/tokenizer/pipeline_tokenizer.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

constexpr char kTokens[] = "tokenizer.ggml.tokens";
constexpr char kTypes[] = "tokenizer.ggml.token_type";
constexpr char kScores[] = "tokenizer.ggml.scores";
constexpr char kMerges[] = "tokenizer.ggml.merges";
constexpr std::string_view kWordStart = "\xE2\x96\x81";  // U+2581

// llama.cpp's token types, as the file numbers them.
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6 };

absl::Status WrongCount(const GgufFile& file, const char* key, size_t found, size_t expected) {
  return DataError({.file = file.path().string(),
                    .key = key,
                    .found = StrCat(found, " elements"),
                    .expected = StrCat(expected, ", one for each token")});
}

struct GgufVocabulary {
  std::vector<std::string> texts;
  std::vector<int64_t> types;
};

absl::StatusOr<GgufVocabulary> ReadVocabulary(const GgufFile& file) {
  GgufVocabulary vocabulary;
  FTUNE_ASSIGN_OR_RETURN(const auto tokens, file.Strings(kTokens));
  if (tokens.empty() || tokens.size() > kMaxVocabulary) {
    return DataError({.file = file.path().string(),
                      .key = kTokens,
                      .found = StrCat(tokens.size(), " tokens"),
                      .expected = StrCat("1 to ", kMaxVocabulary)});
  }
  for (const std::string_view token : tokens) vocabulary.texts.push_back(LossyUtf8(token));
  vocabulary.types.assign(tokens.size(), kNormal);
  if (file.Has(kTypes)) {
    FTUNE_ASSIGN_OR_RETURN(vocabulary.types, file.Ints(kTypes));
    if (vocabulary.types.size() != tokens.size()) {
      return WrongCount(file, kTypes, vocabulary.types.size(), tokens.size());
    }
  }
  return vocabulary;
}

// Tokens that are cut out of the text. Files do not say which of them swallow white space; llama.cpp knows it
// of Phi-3.
absl::StatusOr<std::vector<AddedToken>> ReadAddedTokens(const GgufFile& file,
                                                        const GgufVocabulary& vocabulary) {
  FTUNE_ASSIGN_OR_RETURN(const std::string model_name, file.StringOr("general.name", ""));
  const std::string name = Lower(model_name);
  const bool phi3 = name.find("phi-3") != name.npos || name.find("phi3") != name.npos;
  std::vector<AddedToken> added;
  for (size_t id = 0; id < vocabulary.texts.size(); ++id) {
    const int64_t type = vocabulary.types[id];
    const std::string& text = vocabulary.texts[id];
    if (type != kControl && type != kUserDefined && type != kUnknown && !(phi3 && text == "</s>")) continue;
    const bool plain = text == "<unk>" || text == "<s>" || text == "<|endoftext|>";
    added.push_back({.id = static_cast<int32_t>(id),
                     .text = text,
                     .rstrip = phi3 && !plain,
                     .special = type == kControl || type == kUnknown});
  }
  return added;
}

absl::StatusOr<std::vector<BpeModel::Merge>> ReadMerges(const GgufFile& file, const Vocabulary& vocabulary) {
  FTUNE_ASSIGN_OR_RETURN(const auto texts, file.Strings(kMerges));
  std::vector<BpeModel::Merge> merges;
  merges.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto merge = ParseMerge(texts[i], 0, vocabulary);
    if (!merge) {
      return DataError({.file = file.path().string(),
                        .key = StrCat(kMerges, "[", i, "]"),
                        .found = LossyUtf8(texts[i]),
                        .expected = "two tokens that together are a token"});
    }
    merges.push_back(*merge);
  }
  return merges;
}

// Byte-level BPE.
absl::Status ReadGpt2(const GgufFile& file, PipelineParts& parts, bool& add_bos) {
  FTUNE_ASSIGN_OR_RETURN(const std::string pre, file.StringOr("tokenizer.ggml.pre", ""));
  FTUNE_ASSIGN_OR_RETURN(GgufPreTokenizer splitter, MakeGgufPreTokenizer(pre, file.path().string()));
  FTUNE_ASSIGN_OR_RETURN(const auto merges, ReadMerges(file, *parts.vocabulary));
  FTUNE_ASSIGN_OR_RETURN(const bool prefix_space, file.BoolOr("tokenizer.ggml.add_space_prefix", false));
  if (prefix_space) parts.normalizers.push_back(MakePrepend(" "));
  for (auto& step : splitter.normalizers) parts.normalizers.push_back(std::move(step));
  parts.pre_tokenizers = std::move(splitter.steps);
  parts.model = BpeModel::WithMerges(*parts.vocabulary, merges,
                                     {.byte_level = true, .ignore_merges = splitter.ignore_merges});
  parts.decoders.push_back(MakeByteLevelDecoder());
  add_bos = splitter.add_bos;
  return absl::OkStatus();
}

// SentencePiece's BPE: spaces are U+2581, one is put before each text.
absl::Status ReadLlama(const GgufFile& file, const GgufVocabulary& vocabulary, PipelineParts& parts) {
  FTUNE_ASSIGN_OR_RETURN(const bool prefix_space, file.BoolOr("tokenizer.ggml.add_space_prefix", true));
  FTUNE_ASSIGN_OR_RETURN(const std::vector<float> scores, file.Floats(kScores));
  if (scores.size() != vocabulary.types.size()) {
    return WrongCount(file, kScores, scores.size(), vocabulary.types.size());
  }
  BpeOptions options{.byte_fallback = true};
  std::vector<bool> usable(scores.size());
  for (size_t id = 0; id < usable.size(); ++id) {
    const int64_t type = vocabulary.types[id];
    usable[id] = type != kControl && type != kUnknown && type != kByte;
    if (type == kUnknown) options.unknown = static_cast<int32_t>(id);
  }
  if (prefix_space) parts.normalizers.push_back(MakePrepend(std::string(kWordStart)));
  parts.normalizers.push_back(MakeReplaceText(" ", std::string(kWordStart)));
  parts.model = BpeModel::WithScores(*parts.vocabulary, scores, usable, std::move(options));
  FTUNE_ASSIGN_OR_RETURN(Regex word_start, Regex::CompileLiteral(kWordStart));
  parts.decoders.push_back(MakeReplaceDecoder(std::move(word_start), " "));
  parts.decoders.push_back(MakeByteFallbackDecoder());
  parts.decoders.push_back(MakeFuseDecoder());
  if (prefix_space) parts.decoders.push_back(MakeStripDecoder(' ', 1, 0));
  return absl::OkStatus();
}

// The text of the token whose id is at `key`; nothing if the key is absent.
absl::StatusOr<std::optional<std::string>> ReadRole(const GgufFile& file, const std::string& key,
                                                    const Vocabulary& vocabulary) {
  if (!file.Has(key)) return std::nullopt;
  FTUNE_ASSIGN_OR_RETURN(const int64_t id, file.Int(key));
  if (id < 0 || id >= vocabulary.size()) {
    return DataError({.file = file.path().string(),
                      .key = key,
                      .found = StrCat(id),
                      .expected = StrCat("a token id below ", vocabulary.size())});
  }
  return vocabulary.Text(static_cast<int32_t>(id));
}

absl::StatusOr<TokenizerConfig> ReadConfig(const GgufFile& file, const Vocabulary& vocabulary) {
  TokenizerConfig config;
  FTUNE_ASSIGN_OR_RETURN(config.bos, ReadRole(file, "tokenizer.ggml.bos_token_id", vocabulary));
  FTUNE_ASSIGN_OR_RETURN(config.eos, ReadRole(file, "tokenizer.ggml.eos_token_id", vocabulary));
  FTUNE_ASSIGN_OR_RETURN(config.pad, ReadRole(file, "tokenizer.ggml.padding_token_id", vocabulary));
  FTUNE_ASSIGN_OR_RETURN(config.unk, ReadRole(file, "tokenizer.ggml.unknown_token_id", vocabulary));
  return config;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadGgufTokenizer(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  FTUNE_ASSIGN_OR_RETURN(const std::string model, file.String("tokenizer.ggml.model"));
  if (model != "gpt2" && model != "llama") {
    return DataError({.file = path.string(),
                      .key = "tokenizer.ggml.model",
                      .message = "this type of tokenizer is not supported",
                      .found = model,
                      .expected = "gpt2 or llama"});
  }
  FTUNE_ASSIGN_OR_RETURN(GgufVocabulary vocabulary, ReadVocabulary(file));
  PipelineParts parts;
  FTUNE_ASSIGN_OR_RETURN(parts.added, ReadAddedTokens(file, vocabulary));
  parts.vocabulary = std::make_unique<Vocabulary>(std::move(vocabulary.texts));
  bool add_bos = true;
  if (model == "gpt2") {
    FTUNE_RETURN_IF_ERROR(ReadGpt2(file, parts, add_bos));
  } else {
    FTUNE_RETURN_IF_ERROR(ReadLlama(file, vocabulary, parts));
  }
  FTUNE_ASSIGN_OR_RETURN(const TokenizerConfig config, ReadConfig(file, *parts.vocabulary));
  FTUNE_ASSIGN_OR_RETURN(add_bos, file.BoolOr("tokenizer.ggml.add_bos_token", add_bos));
  FTUNE_ASSIGN_OR_RETURN(const bool add_eos, file.BoolOr("tokenizer.ggml.add_eos_token", false));
  const auto bos = parts.vocabulary->Find(config.bos.value_or(""));
  const auto eos = parts.vocabulary->Find(config.eos.value_or(""));
  if (add_bos && bos) parts.prefix.push_back(*bos);
  if (add_eos && eos) parts.suffix.push_back(*eos);
  FTUNE_ASSIGN_OR_RETURN(parts.chat_template, file.StringOr("tokenizer.chat_template", ""));
  return std::make_unique<PipelineTokenizer>(std::move(parts), config);
}

}  // namespace ftune
