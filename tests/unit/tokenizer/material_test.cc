// Real tokenizers, and what llama.cpp, Hugging Face and axolotl make of texts with them.
#include "tests/unit/base/material.h"

#include <doctest/doctest.h>

#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "base/json_file.h"
#include "base/strings.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

std::unique_ptr<Tokenizer> Load(const std::filesystem::path& path) {
  auto tokenizer = LoadTokenizer(path);
  REQUIRE_MESSAGE(tokenizer.ok(), std::string(tokenizer.status().message()));
  return *std::move(tokenizer);
}

std::vector<std::string> SplitAt(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + separator.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// llama.cpp's test vectors: texts in .inp, a line of ids for each in .out.
void CheckVectors(std::string_view tokenizer_name, const std::string& vectors) {
  const auto path = Material(StrCat("tokenizers/", tokenizer_name));
  const auto input = Material(StrCat("tokenizers/llamacpp_vocab/ggml-vocab-", vectors, ".gguf.inp"));
  const auto output = Material(StrCat("tokenizers/llamacpp_vocab/ggml-vocab-", vectors, ".gguf.out"));
  if (!path || !input || !output) return;
  CAPTURE(*path);
  const auto tokenizer = Load(*path);
  const auto texts = SplitAt(ReadBytes(*input), "\n__ggml_vocab_test__\n");
  const auto lines = SplitAt(ReadBytes(*output), "\n");
  REQUIRE(texts.size() > 40);
  REQUIRE(lines.size() >= texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(texts[i]);
    std::istringstream line(lines[i]);
    std::vector<int32_t> expected;
    for (int32_t id; line >> id;) expected.push_back(id);
    const Encoding encoding = tokenizer->Encode(texts[i]);
    CHECK(encoding.ids == expected);
    int64_t done = 0;
    for (const TextSpan& span : encoding.spans) {
      CHECK(span.begin <= done);
      done = std::max(done, span.end);
    }
    CHECK(done == static_cast<int64_t>(texts[i].size()));
  }
}

TEST_CASE("llama.cpp's vectors, by GGUF vocabularies") {
  CheckVectors("llamacpp_vocab/ggml-vocab-gpt-2.gguf", "gpt-2");
  CheckVectors("llamacpp_vocab/ggml-vocab-llama-spm.gguf", "llama-spm");
  CheckVectors("llamacpp_vocab/ggml-vocab-phi-3.gguf", "phi-3");
}

TEST_CASE("llama.cpp's vectors, by tokenizer.json") {
  CheckVectors("gpt2/tokenizer.derived.json", "gpt-2");
  CheckVectors("npm_big/llama3", "llama-bpe");
  CheckVectors("npm_big/qwen3", "qwen2");
  CheckVectors("hf_json/llama2", "llama-spm");
  CheckVectors("hf_json/phi-3-mini", "phi-3");
}

TEST_CASE("llama.cpp's vectors, by SentencePiece model") {
  CheckVectors("spm/llama2_tokenizer.model", "llama-spm");
}

TEST_CASE("byte-level text comes back") {
  for (const std::string_view name :
       {"tokenizers/npm_big/llama3", "tokenizers/npm_big/qwen3", "tokenizers/gpt2/tokenizer.derived.json"}) {
    const auto path = Material(name);
    const auto file = Material("datasets/oasst/en_100_tree.jsonl");
    if (!path || !file) continue;
    const auto tokenizer = Load(*path);
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

TEST_CASE("axolotl's tokenized conversation decodes to what Llama 2's tokenizer encodes again") {
  const auto file = Material("tokenizers/vectors/axolotl_conversation/conversation.tokenized.json");
  const auto path = Material("tokenizers/hf_json/llama2");
  if (!file || !path) return;
  const auto tokenizer = Load(*path);
  const auto json = ReadJsonFile(*file);
  REQUIRE(json.ok());
  const auto ids = (*json)["input_ids"].get<std::vector<int32_t>>();
  REQUIRE(ids.size() > 100);
  // Turns are encoded on their own and ended by EOS: take each apart.
  std::vector<int32_t> turn;
  int turns = 0;
  for (const int32_t id : ids) {
    if (id > 2) {
      turn.push_back(id);
      continue;
    }
    if (turn.size() > 1) {
      CHECK(tokenizer->Encode(tokenizer->Decode(turn, false)).ids == turn);
      ++turns;
    }
    turn.clear();
  }
  CHECK(turns > 1);
}

TEST_CASE("a megabyte without a space") {
  std::string text;
  for (uint64_t i = 0; text.size() < 1 << 20; ++i)
    text.push_back(static_cast<char>('a' + (i * i * 7 + i / 3) % 26));
  for (const std::string_view name :
       {"tokenizers/hf_json/llama2", "tokenizers/llamacpp_vocab/ggml-vocab-llama-spm.gguf",
        "tokenizers/npm_big/llama3"}) {
    const auto path = Material(name);
    if (!path) continue;
    const auto tokenizer = Load(*path);
    const auto start = std::chrono::steady_clock::now();
    const Encoding encoding = tokenizer->Encode(text);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));  // n² would take hours
    CHECK(tokenizer->Decode(encoding.ids, false) == text);
  }
}

TEST_CASE("other models are refused by name") {
  if (const auto path = Material("tokenizers/spm/sp_test_model.model")) {
    CHECK(Load(*path)->vocab_size() == 1000);
  }
  if (const auto path = Material("tokenizers/hf_json/added-tokens")) {
    CHECK(NotSaid(LoadTokenizer(*path).status(), "tokenizer.json", "model.merges") == "");
  }
}

}  // namespace
}  // namespace ftune
