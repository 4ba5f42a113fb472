#include "engine/format/gguf_tokenizer_writer.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "data/tokenizer/bpe_json.h"
#include "data/tokenizer/gguf_pre_name.h"
#include "data/tokenizer/post_processor_json.h"
#include "data/tokenizer/sentence_piece.h"
#include "data/tokenizer/sentence_piece_proto.h"
#include "data/tokenizer/tokenizer_config.h"

namespace ftune {
namespace {

using Type = SentencePieceProto::Type;

// The tokens by id, up to the rows of the embedding.
struct Tokens {
  std::vector<std::string> texts;
  std::vector<int32_t> types;
  std::vector<float> scores;  // SentencePiece only
};

// Ids of the special tokens, by role; -1 for none.
struct Roles {
  int64_t bos = -1, eos = -1, unknown = -1, pad = -1;
  bool add_bos = false, add_eos = false;
};

// llama.cpp's converter has these for rows of the embedding that have no token.
Tokens Fillers(int64_t count) {
  Tokens tokens;
  for (int64_t id = 0; id < count; ++id) tokens.texts.push_back(StrCat("[PAD", id, "]"));
  tokens.types.assign(count, Type::kUnused);
  tokens.scores.assign(count, -10000.0f);
  return tokens;
}

absl::Status Put(Tokens& tokens, int64_t id, const std::string& text, Type type, float score,
                 const std::string& file) {
  if (id >= static_cast<int64_t>(tokens.texts.size())) {
    return DataError({.file = file,
                      .key = text,
                      .message = "the token's id is beyond the embedding, which GGUF files cannot have",
                      .found = StrCat(id),
                      .expected = StrCat("an id below ", tokens.texts.size())});
  }
  tokens.texts[id] = text;
  tokens.types[id] = type;
  tokens.scores[id] = score;
  return absl::OkStatus();
}

absl::Status PutAdded(Tokens& tokens, const std::vector<AddedToken>& added, const std::string& file) {
  constexpr float kScore = -1000.0f;  // of a token that no text merges into
  for (const AddedToken& token : added) {
    const Type type = token.special ? Type::kControl : Type::kUserDefined;
    FTUNE_RETURN_IF_ERROR(Put(tokens, token.id, token.text, type, kScore, file));
  }
  return absl::OkStatus();
}

int64_t IdOf(const Tokens& tokens, const std::optional<std::string>& text) {
  if (!text) return -1;
  const auto found = std::find(tokens.texts.begin(), tokens.texts.end(), *text);
  return found == tokens.texts.end() ? -1 : found - tokens.texts.begin();
}

Roles FindRoles(const Tokens& tokens, const TokenizerConfig& config) {
  return {.bos = IdOf(tokens, config.bos),
          .eos = IdOf(tokens, config.eos),
          .unknown = IdOf(tokens, config.unk),
          .pad = IdOf(tokens, config.pad)};
}

// What the post-processor puts around a text, as "add BOS" and "add EOS".
absl::Status ReadEnds(const JsonPart& post_processor, Roles& roles) {
  std::vector<int32_t> prefix, suffix;
  FTUNE_RETURN_IF_ERROR(ReadPostProcessor(post_processor, prefix, suffix));
  const auto one = [&](const std::vector<int32_t>& ids, int64_t& role, bool& add) {
    if (ids.size() > 1 || (!ids.empty() && role >= 0 && role != ids[0])) return false;
    add = !ids.empty();
    if (add) role = ids[0];
    return true;
  };
  if (one(prefix, roles.bos, roles.add_bos) && one(suffix, roles.eos, roles.add_eos)) return absl::OkStatus();
  return post_processor.Wrong(
      "at most the BOS token before and the EOS token behind, which is what GGUF can say",
      "this post-processor cannot be written into a GGUF file",
      StrCat("ids [", StrJoin(prefix, ", "), "] before and [", StrJoin(suffix, ", "), "] behind the text"));
}

void AddTokens(const char* model, const std::string& pre, const Tokens& tokens, GgufMetadata& metadata) {
  metadata.Add("tokenizer.ggml.model", model);
  metadata.Add("tokenizer.ggml.pre", pre);
  metadata.Add("tokenizer.ggml.tokens", std::span<const std::string>(tokens.texts));
  metadata.Add("tokenizer.ggml.token_type", std::span<const int32_t>(tokens.types));
}

void AddRoles(const Roles& roles, const ModelConfig& config, const std::string& chat_template,
              GgufMetadata& metadata) {
  const auto add_id = [&](const char* key, int64_t id) {
    if (id >= 0) metadata.Add(key, static_cast<uint32_t>(id));
  };
  // The tokenizer's own end first, then the others that generation stops at.
  std::vector<int64_t> ends;
  if (roles.eos >= 0) ends.push_back(roles.eos);
  for (const int32_t id : config.eos_ids) {
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  }
  ends.resize(3, -1);
  add_id("tokenizer.ggml.bos_token_id", roles.bos >= 0 ? roles.bos : config.bos_id);
  add_id("tokenizer.ggml.eos_token_id", ends[0]);
  add_id("tokenizer.ggml.eot_token_id", ends[1]);
  add_id("tokenizer.ggml.eom_token_id", ends[2]);
  add_id("tokenizer.ggml.unknown_token_id", roles.unknown);
  add_id("tokenizer.ggml.padding_token_id", roles.pad);
  metadata.Add("tokenizer.ggml.add_bos_token", roles.add_bos);
  metadata.Add("tokenizer.ggml.add_eos_token", roles.add_eos);
  if (!chat_template.empty()) metadata.Add("tokenizer.chat_template", chat_template);
}

absl::Status AddByteLevel(const JsonPart& root, const TokenizerConfig& tokenizer, const ModelConfig& config,
                          GgufMetadata& metadata) {
  FTUNE_ASSIGN_OR_RETURN(const std::string pre, FindGgufPreName(root));
  FTUNE_ASSIGN_OR_RETURN(const BpeFromJson bpe, ReadBpe(root.Member("model")));
  if (!bpe.options.continuing_prefix.empty() || !bpe.options.end_suffix.empty()) {
    return root.Member("model").Wrong("neither continuing_subword_prefix nor end_of_word_suffix",
                                      "this tokenizer cannot be written into a GGUF file", "one of them");
  }
  Tokens tokens = Fillers(config.vocab_size);
  for (int32_t id = 0; id < bpe.vocabulary->size(); ++id) {
    const std::string& text = bpe.vocabulary->Text(id);
    if (!text.empty()) FTUNE_RETURN_IF_ERROR(Put(tokens, id, text, Type::kNormal, 0, root.file()));
  }
  std::vector<AddedToken> added;
  if (!root.Member("added_tokens").IsNull()) {
    FTUNE_ASSIGN_OR_RETURN(const auto elements, root.Member("added_tokens").Elements());
    for (const JsonPart& element : elements) {
      FTUNE_ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(element));
      if (const auto id = bpe.vocabulary->Find(token.text)) token.id = *id;  // as hf_tokenizer reads it
      added.push_back(std::move(token));
    }
  }
  FTUNE_RETURN_IF_ERROR(PutAdded(tokens, added, root.file()));
  Roles roles = FindRoles(tokens, tokenizer);
  FTUNE_RETURN_IF_ERROR(ReadEnds(root.Member("post_processor"), roles));
  std::vector<std::string> merges;
  for (const BpeModel::Merge& merge : bpe.merges) {
    merges.push_back(StrCat(bpe.vocabulary->Text(merge.left), " ", bpe.vocabulary->Text(merge.right)));
  }
  AddTokens("gpt2", pre, tokens, metadata);
  metadata.Add("tokenizer.ggml.merges", std::span<const std::string>(merges));
  AddRoles(roles, config, tokenizer.chat_template, metadata);
  return absl::OkStatus();
}

absl::Status AddSentencePiece(const std::filesystem::path& path, TokenizerConfig tokenizer,
                              const ModelConfig& config, GgufMetadata& metadata) {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  std::string error;
  const std::unique_ptr<SentencePiece> model = SentencePiece::Load(file.text(), error);
  const auto proto = ReadSentencePieceProto(file.text());
  if (model == nullptr || !proto) {
    return DataError({.file = path.string(), .message = StrCat("not a SentencePiece model (", error, ")")});
  }
  if (!proto->bpe || proto->normalizes || proto->remove_extra_whitespaces) {
    return DataError(
        {.file = path.string(),
         .message = "this kind of SentencePiece model cannot be written into a GGUF file",
         .found = !proto->bpe ? "another model than BPE" : "one that changes characters or spaces",
         .expected = "a BPE that takes text as it is, as Llama's, Mistral's and Gemma's do"});
  }
  Tokens tokens = Fillers(config.vocab_size);
  for (size_t id = 0; id < proto->pieces.size(); ++id) {
    const SentencePieceProto::Piece& piece = proto->pieces[id];
    FTUNE_RETURN_IF_ERROR(Put(tokens, static_cast<int64_t>(id), piece.text, static_cast<Type>(piece.type),
                              piece.score, path.string()));
  }
  // tokenizer_config.json lists the model's own pieces, too.
  std::erase_if(tokenizer.added, [&](const AddedToken& token) {
    return token.id < model->size() && model->Text(token.id) == token.text;
  });
  FTUNE_RETURN_IF_ERROR(PutAdded(tokens, tokenizer.added, path.string()));
  Roles roles = FindRoles(tokens, tokenizer);
  if (roles.bos < 0) roles.bos = model->bos();
  if (roles.eos < 0) roles.eos = model->eos();
  if (roles.unknown < 0) roles.unknown = model->unk();
  if (roles.pad < 0) roles.pad = model->pad();
  roles.add_bos = tokenizer.add_bos.value_or(true) && roles.bos >= 0;
  roles.add_eos = tokenizer.add_eos.value_or(false) && roles.eos >= 0;
  AddTokens("llama", "default", tokens, metadata);
  metadata.Add("tokenizer.ggml.scores", std::span<const float>(tokens.scores));
  metadata.Add("tokenizer.ggml.add_space_prefix", proto->add_dummy_prefix);
  AddRoles(roles, config, tokenizer.chat_template, metadata);
  return absl::OkStatus();
}

}  // namespace

absl::Status AddTokenizer(const std::filesystem::path& folder, const ModelConfig& config,
                          GgufMetadata& metadata) {
  const std::filesystem::path json_path = folder / "tokenizer.json";
  const std::filesystem::path model_path = folder / "tokenizer.model";
  FTUNE_ASSIGN_OR_RETURN(TokenizerConfig tokenizer, ReadTokenizerConfig(folder));
  if (Exists(json_path)) {
    FTUNE_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(json_path));
    const JsonPart root(json, json_path.string());
    FTUNE_ASSIGN_OR_RETURN(const bool byte_level, IsByteLevel(root.Member("pre_tokenizer")));
    if (byte_level) return AddByteLevel(root, tokenizer, config, metadata);
    if (!Exists(model_path)) {
      return DataError({.file = json_path.string(),
                        .message = "this kind of tokenizer cannot be written into a GGUF file",
                        .expected = "a byte-level BPE, or SentencePiece's tokenizer.model beside it",
                        .hint = "put the model's tokenizer.model into the folder"});
    }
  } else if (!Exists(model_path)) {
    return DataError({.file = folder.string(),
                      .message = "the folder has no tokenizer",
                      .expected = "tokenizer.json or tokenizer.model in it"});
  }
  return AddSentencePiece(model_path, std::move(tokenizer), config, metadata);
}

}  // namespace ftune
