// tiktoken's files, right and wrong; and those of real models beside their tokenizer.json.
#include <absl/strings/escaping.h>
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/json_file.h"
#include "base/strings.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/tiktoken_encoding.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/unit/base/material.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

std::string Line(std::string_view bytes, int64_t id) {
  return StrCat(absl::Base64Escape({bytes.data(), bytes.size()}), " ", id, "\n");
}

std::string AllBytes() {
  std::string file;
  for (int byte = 0; byte < 256; ++byte) file += Line(std::string(1, static_cast<char>(byte)), byte);
  return file;
}

struct Loader {
  TempFolder folder;

  absl::StatusOr<std::unique_ptr<Tokenizer>> operator()(std::string_view name, const std::string& file) {
    WriteBytes(folder / name, file);
    return LoadTokenizer(folder / name);
  }
  absl::Status Error(const std::string& file) { return (*this)("cl100k.tiktoken", file).status(); }
};

TEST_CASE("tiktoken: neighbours become the token of the lowest rank, a whole piece its own") {
  Loader load;
  // "abcd" cannot be reached by merges.
  const auto tokenizer = Loaded(load("cl100k.tiktoken", AllBytes() + Line("bc", 256) + Line("ab", 257) +
                                                            Line("abcd", 258) + Line("\xC3\xA9", 259)));
  CHECK(tokenizer->Encode("abc").ids == std::vector<int32_t>{'a', 256});
  CHECK(tokenizer->Encode("abcd").ids == std::vector<int32_t>{258});
  CHECK(tokenizer->Encode("abcde").ids == std::vector<int32_t>{'a', 256, 'd', 'e'});
  CHECK(tokenizer->Encode("\u00E9ab").ids == std::vector<int32_t>{259, 257});
  CHECK(tokenizer->Encode("\u00E8").spans == std::vector<TextSpan>{{0, 1}, {1, 2}});
  CHECK(tokenizer->Encode("12 34").ids.size() == 5);
  CHECK(tokenizer->Encode("a<|endoftext|>").ids == std::vector<int32_t>{'a', 100257});
  CHECK(tokenizer->special().eos->id == 100257);
  CHECK(tokenizer->IsSpecial(100276));
  CHECK(tokenizer->Decode(std::vector<int32_t>{258, 259, 100257}, false) == "abcd\u00E9<|endoftext|>");
  CHECK(tokenizer->Decode(std::vector<int32_t>{258, 259, 100257}, true) == "abcd\u00E9");
}

TEST_CASE("tiktoken: where the file lies, and what stands beside it") {
  Loader load;
  WriteBytes(load.folder / "qwen.tiktoken", AllBytes());
  const auto tokenizer = Loaded(LoadTokenizer(load.folder.path()));
  CHECK(tokenizer->Encode("a<|im_end|>").ids == std::vector<int32_t>{'a', 258});
  CHECK(tokenizer->Encode("e\u0301").ids == std::vector<int32_t>{0xC3, 0xA9});  // Qwen composes

  // Tokens of the configuration go before those that are known.
  WriteBytes(
      load.folder / "tokenizer_config.json",
      R"({"eos_token": "<stop>", "added_tokens_decoder": {"257": {"content": "<stop>", "special": true}}})");
  const auto named = Loaded(LoadTokenizer(load.folder.path()));
  CHECK(named->Encode("<stop>").ids == std::vector<int32_t>{257});
  CHECK(!named->TokenToId("<|im_start|>"));
  CHECK(named->special().eos->id == 257);
  WriteBytes(load.folder / "tokenizer_config.json",
             R"({"added_tokens_decoder": {"97": {"content": "<stop>", "special": true}}})");
  CHECK(NotSaid(LoadTokenizer(load.folder.path()).status(), "qwen.tiktoken", "97", "<stop>") == "");

  WriteBytes(load.folder / "cl100k.tiktoken", AllBytes());
  CHECK(NotSaid(LoadTokenizer(load.folder.path()).status(), "no tokenizer", "one .tiktoken file") == "");
}

TEST_CASE("tiktoken: Llama 3's file has BOS, under the name that Meta gives it, too") {
  Loader load;
  const auto tokenizer = Loaded(load("llama3.model", AllBytes()));
  CHECK(tokenizer->Encode("a", {.add_special_tokens = true}).ids == std::vector<int32_t>{256, 'a'});
  CHECK(tokenizer->vocab_size() == 512);
  CHECK(tokenizer->TokenToId("<|eot_id|>") == 265);
  CHECK(tokenizer->TokenToId("<|reserved_special_token_2|>") == 268);
  CHECK(FindTiktokenEncoding("tokenizer.model", 128000)->special[9].id == 128009);
}

TEST_CASE("tiktoken: a broken file is refused with the line") {
  Loader load;
  CHECK(NotSaid(load.Error(""), "cl100k.tiktoken", "lack the byte 0", "complete?") == "");
  CHECK(NotSaid(load.Error(AllBytes() + "YQ==\n"), "cl100k.tiktoken:257:", "YQ==", "base64") == "");
  CHECK(NotSaid(load.Error(AllBytes() + "!!!! 256\n"), "cl100k.tiktoken:257:", "!!!!") == "");
  CHECK(NotSaid(load.Error(AllBytes() + "YQ== x\n"), "cl100k.tiktoken:257:") == "");
  CHECK(NotSaid(load.Error(AllBytes() + "YQ== -1\n"), "cl100k.tiktoken:257:", "-1") == "");
  CHECK(NotSaid(load.Error(AllBytes() + "YWI= 99999999999999999999\n"), "cl100k.tiktoken:257:") == "");
  CHECK(NotSaid(load.Error(AllBytes() + "YWI= 2000000000\n"), "cl100k.tiktoken:257:") == "");
  CHECK(NotSaid(load.Error(AllBytes() + "YWI= 7\n"), "cl100k.tiktoken:257:", "a second token of this id") ==
        "");
  CHECK(NotSaid(load.Error(AllBytes() + Line("a", 256)), "twice", "a") == "");
  CHECK(NotSaid(load.Error(AllBytes().substr(0, 1500)), "lack the byte") == "");
  CHECK(NotSaid(load("other.tiktoken", AllBytes()).status(), "other.tiktoken", "256 tokens", "cl100k",
                "tokenizer.json") == "");
  // A .model file that is neither tiktoken's nor SentencePiece's.
  CHECK(NotSaid(load("x.model", "not a model").status(), "x.model", "SentencePiece") == "");
  CHECK(Loaded(load("cl100k.tiktoken", "\r\n" + AllBytes() + "\n"))->vocab_size() == 100277);
}

// A real model's tokens as tiktoken's file, from its tokenizer.json: byte-level BPE numbers its tokens by
// rank.
std::string AsTiktoken(const fs::path& tokenizer_json) {
  const auto json = ReadJsonFile(tokenizer_json);
  REQUIRE(json.ok());
  std::string file;
  for (const auto& [token, id] : (*json)["model"]["vocab"].items()) {
    const auto bytes = FromByteLevel(token);
    if (bytes && token != "<|endoftext|>") file += Line(*bytes, id.get<int64_t>());
  }
  return file;
}

TEST_CASE("tiktoken: real models' files give what their tokenizer.json gives") {
  struct Case {
    const char* json;
    const char* name;
  };
  const auto texts = Material("datasets/oasst/en_100_tree.jsonl");
  const auto vectors = Material("tokenizers/llamacpp_vocab/ggml-vocab-gpt-2.gguf.inp");
  if (!texts || !vectors) return;
  for (const Case& model : {Case{"npm_big/llama3/tokenizer.json", "tokenizer.model"},
                            Case{"npm_big/qwen3/tokenizer.json", "qwen.tiktoken"},
                            Case{"gpt2/tokenizer.derived.json", "r50k_base.tiktoken"}}) {
    const auto json = Material(StrCat("tokenizers/", model.json));
    if (!json) continue;
    CAPTURE(*json);
    Loader load;
    const auto tokenizer = Loaded(load(model.name, AsTiktoken(*json)));
    const auto wanted = Loaded(LoadTokenizer(*json));
    for (const std::string& text : {ReadBytes(*texts), ReadBytes(*vectors)}) {
      const Encoding encoding = tokenizer->Encode(text);
      const Encoding expected = wanted->Encode(text);
      CHECK(encoding.ids == expected.ids);
      CHECK(encoding.spans == expected.spans);
      const bool same_text = tokenizer->Decode(encoding.ids, false) == text;
      CHECK(same_text);
    }
  }
}

}  // namespace
}  // namespace ftune
