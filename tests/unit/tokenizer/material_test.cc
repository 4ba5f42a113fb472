// Real tokenizers, and what llama.cpp, Hugging Face and axolotl make of texts with them.
#include "tests/unit/base/material.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/json_file.h"
#include "base/strings.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace ftune {
namespace {

std::vector<std::string> SplitAt(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + separator.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// llama.cpp's test vectors: texts in .inp, a line of ids for each in .out. Gives their number.
size_t CheckVectors(const Tokenizer& tokenizer, const std::filesystem::path& input) {
  const auto texts = SplitAt(ReadBytes(input), "\n__ggml_vocab_test__\n");
  const auto lines = SplitAt(ReadBytes(std::filesystem::path(input).replace_extension(".out")), "\n");
  REQUIRE(texts.size() > 40);
  REQUIRE(lines.size() >= texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(texts[i]);
    std::istringstream line(lines[i]);
    std::vector<int32_t> expected;
    for (int32_t id; line >> id;) expected.push_back(id);
    const Encoding encoding = tokenizer.Encode(texts[i]);
    CHECK(encoding.ids == expected);
    int64_t done = 0;
    for (const TextSpan& span : encoding.spans) {
      CHECK(span.begin <= done);
      done = std::max(done, span.end);
    }
    CHECK(done == static_cast<int64_t>(texts[i].size()));
  }
  return texts.size();
}

TEST_CASE("every vector of llama.cpp's, by each kind of file that has its tokenizer") {
  const auto folder = Material("tokenizers/llamacpp_vocab");
  if (!folder) return;
  const std::map<std::string, std::vector<const char*>> tokenizers = {
      {"gpt-2", {"gpt2/tokenizer.derived.json", "llamacpp_vocab/ggml-vocab-gpt-2.gguf"}},
      {"llama-bpe", {"npm_big/llama3"}},
      {"llama-spm",
       {"hf_json/llama2", "llamacpp_vocab/ggml-vocab-llama-spm.gguf", "spm/llama2_tokenizer.model"}},
      {"phi-3", {"hf_json/phi-3-mini", "llamacpp_vocab/ggml-vocab-phi-3.gguf"}},
      {"qwen2", {"npm_big/qwen3"}}};
  size_t files = 0, vectors = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    if (entry.path().extension() != ".inp") continue;
    std::string name = entry.path().stem().stem().string();  // ggml-vocab-NAME.gguf.inp
    name.erase(0, std::string_view("ggml-vocab-").size());
    CAPTURE(name);
    ++files;
    REQUIRE(tokenizers.contains(name));
    for (const char* file : tokenizers.at(name)) {
      const auto path = Material(StrCat("tokenizers/", file));
      if (!path) continue;
      CAPTURE(*path);
      vectors += CheckVectors(*Loaded(LoadTokenizer(*path)), entry.path());
    }
  }
  MESSAGE(vectors, " vectors of ", files, " files");
  CHECK(files == 5);
  CHECK(vectors == 423);
}

TEST_CASE("one tokenizer in several kinds of files gives the same ids") {
  const auto texts = Material("datasets/oasst/en_100_tree.jsonl");
  if (!texts) return;
  const std::string text = ReadBytes(*texts);
  const std::vector<std::vector<const char*>> same = {
      {"hf_json/llama2", "llamacpp_vocab/ggml-vocab-llama-spm.gguf", "spm/llama2_tokenizer.model"},
      {"gpt2/tokenizer.derived.json", "llamacpp_vocab/ggml-vocab-gpt-2.gguf"},
      {"hf_json/phi-3-mini", "llamacpp_vocab/ggml-vocab-phi-3.gguf"}};
  for (const auto& files : same) {
    std::vector<int32_t> ids;
    for (const char* file : files) {
      const auto path = Material(StrCat("tokenizers/", file));
      if (!path) continue;
      CAPTURE(*path);
      Encoding encoding = Loaded(LoadTokenizer(*path))->Encode(text);
      if (!ids.empty()) CHECK(encoding.ids == ids);
      ids = std::move(encoding.ids);
    }
  }
}

TEST_CASE("byte-level text comes back") {
  for (const std::string_view name :
       {"tokenizers/npm_big/llama3", "tokenizers/npm_big/qwen3", "tokenizers/gpt2/tokenizer.derived.json"}) {
    const auto path = Material(name);
    const auto file = Material("datasets/oasst/en_100_tree.jsonl");
    if (!path || !file) continue;
    const auto tokenizer = Loaded(LoadTokenizer(*path));
    const std::string text = ReadBytes(*file);
    const Encoding encoding = tokenizer->Encode(text);
    CHECK(tokenizer->Decode(encoding.ids, false) == text);
    int64_t done = 0;
    for (const TextSpan& span : encoding.spans) {
      REQUIRE(span.begin == done);
      done = span.end;
    }
    CHECK(done == static_cast<int64_t>(text.size()));
  }
}

// Turns were encoded on their own and ended by EOS; some end in padding.
std::vector<std::vector<int32_t>> Turns(const std::vector<int32_t>& ids) {
  std::vector<std::vector<int32_t>> turns(1);
  for (const int32_t id : ids) {
    if (id > 2) {
      turns.back().push_back(id);
    } else if (!turns.back().empty()) {
      turns.emplace_back();
    }
  }
  turns.pop_back();
  return turns;
}

TEST_CASE("axolotl's tokenized conversations decode to what Llama 2's tokenizer encodes again") {
  const auto folder = Material("tokenizers/vectors/axolotl_conversation");
  const auto path = Material("tokenizers/hf_json/llama2");
  if (!folder || !path) return;
  const auto tokenizer = Loaded(LoadTokenizer(*path));
  const auto conversation = ReadJsonFile(*folder / "conversation.json");
  REQUIRE(conversation.ok());
  for (const char* name : {"conversation.tokenized.json", "conversation.tokenized_llama2chat.json"}) {
    CAPTURE(name);
    const auto json = ReadJsonFile(*folder / name);
    REQUIRE(json.ok());
    const auto turns = Turns((*json)["input_ids"].get<std::vector<int32_t>>());
    CHECK(turns.size() == 6);
    std::string text;
    for (const auto& turn : turns) {
      text += tokenizer->Decode(turn, false);
      CHECK(tokenizer->Encode(tokenizer->Decode(turn, false)).ids == turn);
    }
    for (const auto& message : (*conversation)["conversations"]) {
      CAPTURE(message["value"].get<std::string>());
      CHECK(Contains(text, message["value"].get<std::string>()));
    }
  }
}

TEST_CASE("other models are refused by name") {
  if (const auto path = Material("tokenizers/spm/sp_test_model.model")) {
    CHECK(Loaded(LoadTokenizer(*path))->vocab_size() == 1000);
  }
  if (const auto path = Material("tokenizers/hf_json/added-tokens")) {
    CHECK(NotSaid(LoadTokenizer(*path).status(), "tokenizer.json", "model.merges") == "");
  }
}

}  // namespace
}  // namespace ftune
