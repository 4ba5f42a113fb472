// Which of the kinds of tokenizer files a model has.
#include "base/error.h"
#include "data/tokenizer/gguf_vocab.h"
#include "data/tokenizer/hf_tokenizer.h"
#include "data/tokenizer/sp_tokenizer.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_config.h"

namespace ftune {

namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const fs::path& model) {
  std::error_code ignored;
  const std::string extension = model.extension().string();
  if (extension == ".gguf") return LoadGgufTokenizer(model);
  const bool folder = fs::is_directory(model, ignored);
  const fs::path json = folder ? model / "tokenizer.json" : model;
  const fs::path piece = folder ? model / "tokenizer.model" : model;
  const bool is_json = folder ? fs::exists(json, ignored) : extension == ".json";
  if (!folder && !fs::exists(model, ignored)) {
    return DataError({.file = model.string(),
                      .message = "no such file or folder",
                      .expected = "a model's folder or a .gguf file"});
  }
  if (!is_json && !fs::exists(piece, ignored)) {
    return DataError({.file = model.string(),
                      .message = "the folder has no tokenizer",
                      .expected = "tokenizer.json or tokenizer.model in it"});
  }
  FTUNE_ASSIGN_OR_RETURN(TokenizerConfig config, ReadTokenizerConfig(folder ? model : model.parent_path()));
  return is_json ? LoadTokenizerJson(json, std::move(config))
                 : LoadSentencePieceTokenizer(piece, std::move(config));
}

}  // namespace ftune
