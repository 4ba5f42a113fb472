#include "data/tokenizer/tiktoken.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/gguf_pre_tokenizer.h"
#include "data/tokenizer/pipeline_tokenizer.h"
#include "data/tokenizer/tiktoken_encoding.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

struct Line {
  std::string bytes;  // the token
  int64_t id = -1;
};

// Nothing if the line is of another form.
std::optional<Line> ReadLine(std::string_view text) {
  Line line;
  const size_t space = text.find(' ');
  if (space == text.npos || space == 0) return std::nullopt;
  const std::string_view number = text.substr(space + 1);
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), line.id);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) return std::nullopt;
  const std::string_view base64 = text.substr(0, space);
  if (!absl::Base64Unescape({base64.data(), base64.size()}, &line.bytes) || line.bytes.empty())
    return std::nullopt;
  return line;
}

// Without the end of the line, which `rest` is moved behind.
std::string_view NextLine(std::string_view& rest) {
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

// Tokens by id, in the byte-level alphabet.
absl::StatusOr<std::unique_ptr<Vocabulary>> ReadVocabulary(std::string_view rest, const std::string& file) {
  std::vector<std::string> texts;
  int number = 0;
  while (!rest.empty()) {
    const std::string_view text = NextLine(rest);
    ++number;
    if (text.empty()) continue;
    const auto line = ReadLine(text);
    const auto wrong = [&](std::string message) {
      return DataError({.file = file,
                        .line = number,
                        .message = std::move(message),
                        .found = LossyUtf8(text.substr(0, 80)),
                        .expected = "a token in base64, a space and its id"});
    };
    if (!line || line->id < 0 || line->id >= kMaxVocabulary) return wrong("");
    const auto id = static_cast<size_t>(line->id);
    if (id >= texts.size()) texts.resize(id + 1);
    if (!texts[id].empty()) return wrong("a second token of this id");
    texts[id] = ToByteLevel(line->bytes);
  }
  auto vocabulary = std::make_unique<Vocabulary>(std::move(texts));
  for (int byte = 0; byte < 256; ++byte) {
    if (vocabulary->Find(ToByteLevel(std::string(1, static_cast<char>(byte))))) continue;
    return DataError({.file = file,
                      .message = StrCat("the tokens lack the byte ", byte),
                      .expected = "a token for each byte",
                      .hint = "is the file complete?"});
  }
  for (int32_t id = 0; id < vocabulary->size(); ++id) {
    const std::string& text = vocabulary->Text(id);
    if (text.empty() || vocabulary->Find(text) == id) continue;
    return DataError({.file = file, .message = "a token stands twice", .found = text});
  }
  return vocabulary;
}

int64_t CountTokens(const Vocabulary& vocabulary) {
  int64_t count = 0;
  for (int32_t id = 0; id < vocabulary.size(); ++id) count += !vocabulary.Text(id).empty();
  return count;
}

// The folder's own, and those of the encoding that it does not name otherwise.
absl::StatusOr<std::vector<AddedToken>> AllAdded(std::vector<AddedToken> added,
                                                 const std::vector<AddedToken>& known,
                                                 const Vocabulary& vocabulary, const std::string& file) {
  for (const AddedToken& token : known) {
    const bool named = std::any_of(added.begin(), added.end(), [&](const AddedToken& other) {
      return other.id == token.id || other.text == token.text;
    });
    if (!named) added.push_back(token);
  }
  for (const AddedToken& token : added) {
    if (token.id >= vocabulary.size() || vocabulary.Text(token.id).empty()) continue;
    return DataError({.file = file,
                      .message = StrCat("the id ", token.id, " of the special token ", token.text,
                                        " is that of a token of the file"),
                      .hint = "is this the tokenizer that its name says?"});
  }
  return added;
}

}  // namespace

bool IsTiktoken(std::string_view file) { return ReadLine(NextLine(file)).has_value(); }

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTiktokenTokenizer(const std::filesystem::path& path,
                                                                 TokenizerConfig config) {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  PipelineParts parts;
  FTUNE_ASSIGN_OR_RETURN(parts.vocabulary, ReadVocabulary(file.text(), path.string()));
  const int64_t tokens = CountTokens(*parts.vocabulary);
  const auto encoding = FindTiktokenEncoding(path.filename().string(), tokens);
  if (!encoding) {
    return DataError(
        {.file = path.string(),
         .message = "a tiktoken file says neither how text is split nor which special tokens there are",
         .found = StrCat(tokens, " tokens, which is no tokenizer that is known"),
         .expected = StrCat("a file whose name has one of ", TiktokenEncodingNames()),
         .hint = "rename it if it is one of these; otherwise use the model's tokenizer.json"});
  }
  FTUNE_ASSIGN_OR_RETURN(GgufPreTokenizer splitter,
                         MakeGgufPreTokenizer(encoding->pre_tokenizer, path.string()));
  FTUNE_ASSIGN_OR_RETURN(
      parts.added, AllAdded(std::move(config.added), encoding->special, *parts.vocabulary, path.string()));
  parts.normalizers = std::move(splitter.normalizers);
  parts.pre_tokenizers = std::move(splitter.steps);
  parts.model = BpeModel::WithRanks(*parts.vocabulary);
  parts.decoders.push_back(MakeByteLevelDecoder());
  parts.chat_template = std::move(config.chat_template);
  if (!config.bos && !encoding->bos.empty()) config.bos = encoding->bos;
  if (!config.eos && !encoding->eos.empty()) config.eos = encoding->eos;
  const auto find = [&](const std::optional<std::string>& text) {
    return std::find_if(parts.added.begin(), parts.added.end(),
                        [&](const AddedToken& token) { return token.text == text; });
  };
  const auto bos = find(config.bos), eos = find(config.eos);
  if (config.add_bos.value_or(encoding->add_bos) && bos != parts.added.end()) parts.prefix.push_back(bos->id);
  if (config.add_eos.value_or(false) && eos != parts.added.end()) parts.suffix.push_back(eos->id);
  return std::make_unique<PipelineTokenizer>(std::move(parts), config);
}

}  // namespace ftune
