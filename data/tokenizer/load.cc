// Which of the kinds of tokenizer files a model has.
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "data/tokenizer/gguf_vocab.h"
#include "data/tokenizer/hf_tokenizer.h"
#include "data/tokenizer/sp_tokenizer.h"
#include "data/tokenizer/tiktoken.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_config.h"

namespace ftune {

namespace fs = std::filesystem;

namespace {

// The folder's only file of tiktoken's that is named so; nothing if there is none, or more than one.
std::optional<fs::path> FindTiktokenFile(const fs::path& folder) {
  std::optional<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".tiktoken") continue;
    if (found) return std::nullopt;
    found = entry.path();
  }
  return found;
}

absl::StatusOr<fs::path> FindTokenizerFile(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer.model.v3"}) {
    if (fs::exists(folder / name, ignored)) return folder / name;
  }
  if (const auto tiktoken = FindTiktokenFile(folder)) return *tiktoken;
  return DataError({.file = folder.string(),
                    .message = "the folder has no tokenizer",
                    .expected = "tokenizer.json or tokenizer.model in it (or one .tiktoken file)"});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const fs::path& model) {
  std::error_code ignored;
  if (!fs::exists(model, ignored)) {
    return DataError({.file = model.string(),
                      .message = "no such file or folder",
                      .expected = "a model's folder, a .gguf file or a tokenizer's file"});
  }
  fs::path path = model;
  if (fs::is_directory(model, ignored)) {
    FTUNE_ASSIGN_OR_RETURN(path, FindTokenizerFile(model));
  }
  if (path.extension() == ".gguf") return LoadGgufTokenizer(path);
  FTUNE_ASSIGN_OR_RETURN(TokenizerConfig config, ReadTokenizerConfig(path.parent_path()));
  if (path.extension() == ".json") return LoadTokenizerJson(path, std::move(config));
  bool tiktoken = false;
  {
    FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    tiktoken = path.extension() == ".tiktoken" || IsTiktoken(file.text());
  }
  return tiktoken ? LoadTiktokenTokenizer(path, std::move(config))
                  : LoadSentencePieceTokenizer(path, std::move(config));
}

}  // namespace ftune
