#include "data/tokenizer/tokenizer_config.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_file.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "data/tokenizer/utf8.h"
#include "data/tokenizer/vocabulary.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

absl::StatusOr<json> ReadIfThere(const fs::path& path) {
  if (!Exists(path)) return json::object();
  return ReadJsonFile(path);
}

absl::StatusOr<int32_t> CheckId(const JsonPart& part, int64_t id) {
  if (id < 0 || id >= kMaxVocabulary)
    return part.Wrong(StrCat("an id below ", kMaxVocabulary), "", StrCat(id));
  return static_cast<int32_t>(id);
}

// "<s>" or {"content": "<s>", …}.
absl::Status ReadRole(const JsonPart& config, const std::string& key, std::optional<std::string>& text) {
  const JsonPart token = config.Member(key);
  if (token.IsNull() || text) return absl::OkStatus();
  if (token.value().is_object()) {
    FTUNE_ASSIGN_OR_RETURN(text, token.String("content"));
  } else {
    FTUNE_ASSIGN_OR_RETURN(text, config.String(key));
  }
  return absl::OkStatus();
}

absl::Status ReadRoles(const JsonPart& part, TokenizerConfig& config) {
  FTUNE_RETURN_IF_ERROR(ReadRole(part, "bos_token", config.bos));
  FTUNE_RETURN_IF_ERROR(ReadRole(part, "eos_token", config.eos));
  FTUNE_RETURN_IF_ERROR(ReadRole(part, "pad_token", config.pad));
  return ReadRole(part, "unk_token", config.unk);
}

// {"32000": {"content": "<pad>", …}, …}
absl::Status ReadAddedTokensDecoder(const JsonPart& part, std::vector<AddedToken>& added) {
  if (part.IsNull()) return absl::OkStatus();
  if (!part.value().is_object()) return part.Wrong("an object of ids and tokens");
  for (const auto& [key, value] : part.value().items()) {
    int64_t id = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size()) {
      return part.Wrong("token ids as keys", "", StrCat("\"", key, "\""));
    }
    FTUNE_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(JsonPart(value, part.file(), part.Key(key)), id));
    added.push_back(std::move(token));
  }
  return absl::OkStatus();
}

// {"<pad>": 32000, …}, from before added_tokens_decoder.
absl::Status ReadAddedTokensMap(const JsonPart& part, std::vector<AddedToken>& added) {
  if (!part.value().is_object()) return part.Wrong("an object of tokens and their ids");
  for (const auto& [text, value] : part.value().items()) {
    FTUNE_ASSIGN_OR_RETURN(const int64_t number, part.Int(text));
    FTUNE_ASSIGN_OR_RETURN(const int32_t id, CheckId(part, number));
    const bool known =
        std::any_of(added.begin(), added.end(), [&](const AddedToken& t) { return t.id == id; });
    if (!known) added.push_back({.id = id, .text = text});
  }
  return absl::OkStatus();
}

absl::Status ReadChatTemplate(const JsonPart& part, std::string& source) {
  if (part.IsNull()) return absl::OkStatus();
  if (part.value().is_string()) {
    source = part.value().get<std::string>();
    return absl::OkStatus();
  }
  FTUNE_ASSIGN_OR_RETURN(const auto named, part.Elements());
  for (const JsonPart& element : named) {
    FTUNE_ASSIGN_OR_RETURN(const std::string name, element.String("name"));
    FTUNE_ASSIGN_OR_RETURN(std::string text, element.String("template"));
    if (name == "default" || named.size() == 1) source = std::move(text);
  }
  return absl::OkStatus();
}

std::optional<SpecialToken> FindToken(const std::optional<std::string>& text, const Tokenizer& tokenizer) {
  const auto id = text ? tokenizer.TokenToId(*text) : std::nullopt;
  if (!id) return std::nullopt;
  return SpecialToken{*text, *id};
}

}  // namespace

absl::StatusOr<AddedToken> ReadAddedToken(const JsonPart& part, std::optional<int64_t> id) {
  AddedToken token;
  FTUNE_ASSIGN_OR_RETURN(const int64_t number, id ? absl::StatusOr<int64_t>(*id) : part.Int("id"));
  FTUNE_ASSIGN_OR_RETURN(token.id, CheckId(part, number));
  FTUNE_ASSIGN_OR_RETURN(token.text, part.String("content"));
  FTUNE_ASSIGN_OR_RETURN(token.single_word, part.Bool("single_word", false));
  FTUNE_ASSIGN_OR_RETURN(token.lstrip, part.Bool("lstrip", false));
  FTUNE_ASSIGN_OR_RETURN(token.rstrip, part.Bool("rstrip", false));
  FTUNE_ASSIGN_OR_RETURN(token.special, part.Bool("special", false));
  FTUNE_ASSIGN_OR_RETURN(token.normalized, part.Bool("normalized", !token.special));
  return token;
}

absl::StatusOr<TokenizerConfig> ReadTokenizerConfig(const fs::path& folder) {
  TokenizerConfig config;
  const fs::path config_path = folder / "tokenizer_config.json";
  const fs::path map_path = folder / "special_tokens_map.json";
  const fs::path added_path = folder / "added_tokens.json";
  const fs::path template_path = folder / "chat_template.jinja";
  FTUNE_ASSIGN_OR_RETURN(const json config_json, ReadIfThere(config_path));
  FTUNE_ASSIGN_OR_RETURN(const json map_json, ReadIfThere(map_path));
  FTUNE_ASSIGN_OR_RETURN(const json added_json, ReadIfThere(added_path));
  const JsonPart main(config_json, config_path.string());
  FTUNE_RETURN_IF_ERROR(ReadRoles(main, config));
  FTUNE_RETURN_IF_ERROR(ReadRoles(JsonPart(map_json, map_path.string()), config));
  for (const auto& [key, value] :
       {std::pair("add_bos_token", &config.add_bos), {"add_eos_token", &config.add_eos}}) {
    if (main.Member(key).IsNull()) continue;
    FTUNE_ASSIGN_OR_RETURN(*value, main.Bool(key));
  }
  FTUNE_ASSIGN_OR_RETURN(config.legacy, main.Bool("legacy", true));
  FTUNE_RETURN_IF_ERROR(ReadAddedTokensDecoder(main.Member("added_tokens_decoder"), config.added));
  FTUNE_RETURN_IF_ERROR(ReadAddedTokensMap(JsonPart(added_json, added_path.string()), config.added));
  if (Exists(template_path)) {
    FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(template_path));
    config.chat_template = LossyUtf8(file.text());
  } else {
    FTUNE_RETURN_IF_ERROR(ReadChatTemplate(main.Member("chat_template"), config.chat_template));
  }
  return config;
}

SpecialTokens FindSpecialTokens(const TokenizerConfig& config, const Tokenizer& tokenizer) {
  return {.bos = FindToken(config.bos, tokenizer),
          .eos = FindToken(config.eos, tokenizer),
          .pad = FindToken(config.pad, tokenizer),
          .unk = FindToken(config.unk, tokenizer)};
}

}  // namespace ftune
