// tokenizer.json and tokenizer_config.json made from GGUF metadata.
#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/format/gguf_tokenizer.h"
#include "engine/format/spm_merges.h"
#include "tests/unit/base/gguf_builder.h"
#include "tests/unit/base/material.h"

namespace ftune {
namespace {

using nlohmann::json;

GgufBuilder ByteLevel(const std::string& pre) {
  GgufBuilder builder;
  builder.Text("tokenizer.ggml.model", "gpt2").Text("tokenizer.ggml.pre", pre);
  builder.Texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>", "<x>", "[PAD5]"});
  builder.Ints("tokenizer.ggml.token_type", {1, 1, 1, 3, 4, 5}).Texts("tokenizer.ggml.merges", {"a b"});
  return builder.Int("tokenizer.ggml.bos_token_id", 3).Int("tokenizer.ggml.eos_token_id", 3);
}

absl::StatusOr<TokenizerFiles> Make(const GgufBuilder& builder) {
  TempFolder folder;
  WriteBytes(folder / "m.gguf", builder.Build());
  const auto file = GgufFile::Open(folder / "m.gguf");
  REQUIRE(file.ok());
  return MakeTokenizerFiles(*file);
}

json TokenizerOf(const GgufBuilder& builder) {
  const auto files = Make(builder);
  INFO(files.status().message());
  REQUIRE(files.ok());
  return json::parse(files->tokenizer_json);
}

TEST_CASE("gguf tokenizer: byte-level BPE") {
  const json tokenizer = TokenizerOf(ByteLevel("smollm"));
  CHECK(tokenizer["model"]["type"] == "BPE");
  CHECK(tokenizer["model"]["vocab"] == json({{"a", 0}, {"b", 1}, {"ab", 2}, {"<s>", 3}, {"<x>", 4}}));
  CHECK(tokenizer["model"]["merges"] == json::array({"a b"}));
  REQUIRE(tokenizer["added_tokens"].size() == 2);
  CHECK(tokenizer["added_tokens"][0]["content"] == "<s>");
  CHECK(tokenizer["added_tokens"][0]["id"] == 3);
  CHECK(tokenizer["added_tokens"][0]["special"] == true);
  CHECK(tokenizer["added_tokens"][1]["special"] == false);
  const json& steps = tokenizer["pre_tokenizer"]["pretokenizers"];
  REQUIRE(steps.size() == 3);
  CHECK(steps[0]["pattern"]["Regex"] == "\\p{N}");
  CHECK(steps[0]["behavior"] == "Isolated");
  CHECK(steps[2] == json({{"type", "ByteLevel"},
                          {"add_prefix_space", false},
                          {"trim_offsets", false},
                          {"use_regex", false}}));
  CHECK(tokenizer["post_processor"]["type"] == "ByteLevel");
}

TEST_CASE("gguf tokenizer: what the name of the pre-tokenizer means") {
  const json llama3 = TokenizerOf(ByteLevel("llama-bpe"));
  CHECK(llama3["model"]["ignore_merges"] == true);
  CHECK(llama3["normalizer"].is_null());
  const std::string regex = llama3["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
  CHECK(Contains(regex, "\\p{N}{1,3}"));
  CHECK(llama3["pre_tokenizer"]["pretokenizers"][1]["use_regex"] == false);
  const json& ends = llama3["post_processor"]["processors"][1];
  CHECK(ends["single"][0]["SpecialToken"]["id"] == "<s>");
  CHECK(ends["single"][1]["Sequence"]["id"] == "A");
  CHECK(ends["special_tokens"]["<s>"]["ids"] == json::array({3}));
  CHECK(ends["pair"].size() == 4);

  const json qwen2 = TokenizerOf(ByteLevel("qwen2"));
  CHECK(qwen2["normalizer"]["normalizers"][0]["type"] == "NFC");
  CHECK(qwen2["model"]["ignore_merges"] == false);
  CHECK(qwen2["post_processor"]["type"] == "ByteLevel");
  CHECK_FALSE(
      Contains(qwen2["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"].get<std::string>(), "{1,3}"));

  const json gpt2 = TokenizerOf(ByteLevel("gpt-2"));
  CHECK(gpt2["pre_tokenizer"]["pretokenizers"].size() == 2);
  CHECK(gpt2["normalizer"].is_null());
  const json spaced = TokenizerOf(ByteLevel("gpt-2").Bool("tokenizer.ggml.add_space_prefix", true));
  CHECK(spaced["normalizer"]["normalizers"][0]["prepend"] == " ");

  CHECK(TokenizerOf(
            ByteLevel("llama-bpe").Bool("tokenizer.ggml.add_bos_token", false))["post_processor"]["type"] ==
        "ByteLevel");
  const json both = TokenizerOf(ByteLevel("gpt-2")
                                    .Bool("tokenizer.ggml.add_bos_token", true)
                                    .Bool("tokenizer.ggml.add_eos_token", true));
  CHECK(both["post_processor"]["processors"][1]["single"].size() == 3);
}

TEST_CASE("gguf tokenizer: special tokens and the chat template") {
  const auto files = Make(ByteLevel("qwen2")
                              .Text("tokenizer.chat_template", "{{ x }}")
                              .Int("tokenizer.ggml.padding_token_id", 4));
  REQUIRE(files.ok());
  const json config = json::parse(files->tokenizer_config_json);
  CHECK(config["bos_token"] == "<s>");
  CHECK(config["eos_token"] == "<s>");
  CHECK(config["pad_token"] == "<x>");
  CHECK_FALSE(config.contains("unk_token"));
  CHECK(config["chat_template"] == "{{ x }}");
}

TEST_CASE("gguf tokenizer: SentencePiece's BPE") {
  GgufBuilder builder;
  builder.Text("tokenizer.ggml.model", "llama");
  builder.Texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "<0x0A>", "a", "b", "ab", "aba"});
  builder.Ints("tokenizer.ggml.token_type", {2, 3, 6, 1, 1, 1, 1});
  builder.Floats("tokenizer.ggml.scores", {0, 0, 0, -3, -4, -1, -2}).Int("tokenizer.ggml.bos_token_id", 1);
  builder.Int("tokenizer.ggml.unknown_token_id", 0);
  const json tokenizer = TokenizerOf(builder);
  CHECK(tokenizer["model"]["merges"] == json::array({"a b", "ab a"}));
  CHECK(tokenizer["model"]["byte_fallback"] == true);
  CHECK(tokenizer["model"]["unk_token"] == "<unk>");
  CHECK(tokenizer["model"]["vocab"]["<0x0A>"] == 2);
  CHECK(tokenizer["added_tokens"].size() == 2);
  CHECK(tokenizer["normalizer"]["normalizers"][0]["type"] == "Prepend");
  CHECK(tokenizer["post_processor"]["single"][0]["SpecialToken"]["id"] == "<s>");
  const json bare = TokenizerOf(GgufBuilder(builder).Bool("tokenizer.ggml.add_space_prefix", false));
  CHECK(bare["normalizer"]["normalizers"].size() == 1);
  CHECK(bare["decoder"]["decoders"].size() == 3);
}

TEST_CASE("gguf tokenizer: merges by score, then longest left, then longest right") {
  const ScoredPiece pieces[] = {{"a", -9, 0}, {"é", -9, 1}, {"aé", -1, 2}, {"éa", -1, 3}, {"aéa", -1, 4}};
  CHECK(SentencePieceMerges(pieces) == std::vector<std::string>{"aé a", "a éa", "a é", "é a"});
  CHECK(SentencePieceMerges({}).empty());
}

TEST_CASE("gguf tokenizer: what is missing or wrong is named") {
  CHECK(NotSaid(Make(ByteLevel("no-such-pre")).status(), "tokenizer.ggml.pre", "no-such-pre") == "");
  CHECK(NotSaid(Make(GgufBuilder()).status(), "tokenizer.ggml.model", "no such key") == "");
  CHECK(NotSaid(Make(GgufBuilder().Text("tokenizer.ggml.model", "bert").Texts("tokenizer.ggml.tokens", {"a"}))
                    .status(),
                "tokenizer.ggml.model", "'bert'", "gpt2") == "");
  const auto with = [](const std::vector<std::string>& tokens, const std::vector<int32_t>& types,
                       uint32_t bos) {
    GgufBuilder builder;
    builder.Text("tokenizer.ggml.model", "gpt2").Text("tokenizer.ggml.pre", "gpt-2");
    builder.Texts("tokenizer.ggml.tokens", tokens).Ints("tokenizer.ggml.token_type", types);
    return Make(builder.Texts("tokenizer.ggml.merges", {}).Int("tokenizer.ggml.bos_token_id", bos)).status();
  };
  CHECK(with({"a", "b"}, {1, 1}, 1).ok());
  CHECK(NotSaid(with({"a", "b"}, {1}, 0), "token_type", "1 types", "2") == "");
  CHECK(NotSaid(with({"a", "a"}, {1, 1}, 0), "two tokens", "found a") == "");
  CHECK(NotSaid(with({"a", "b"}, {1, 1}, 2), "bos_token_id", "below 2") == "");
  CHECK(with({"a", "\xff"}, {1, 1}, 0).ok());  // not UTF-8: replaced
  GgufBuilder spm;
  spm.Text("tokenizer.ggml.model", "llama").Texts("tokenizer.ggml.tokens", {"a"});
  CHECK(NotSaid(Make(spm).status(), "tokenizer.ggml.scores", "no such key") == "");
  CHECK(NotSaid(Make(GgufBuilder(spm).Floats("tokenizer.ggml.scores", {1, 2})).status(), "2 scores",
                "expected 1") == "");
  CHECK(NotSaid(Make(spm.Floats("tokenizer.ggml.scores", {NAN})).status(), "not a number") == "");
}

TEST_CASE("gguf tokenizer: real vocabularies") {
  const auto folder = Material("tokenizers");
  if (!folder) return;
  const auto gpt2 = GgufFile::Open(*folder / "llamacpp_vocab/ggml-vocab-gpt-2.gguf");
  REQUIRE(gpt2.ok());
  const auto files = MakeTokenizerFiles(*gpt2);
  REQUIRE(files.ok());
  CHECK(json::parse(files->tokenizer_json)["model"]["vocab"].size() == 50257);

  // The merges that the SentencePiece scores give are those of Llama 2's own tokenizer.json.
  const auto spm = GgufFile::Open(*folder / "llamacpp_vocab/ggml-vocab-llama-spm.gguf");
  REQUIRE(spm.ok());
  const json ours = json::parse(MakeTokenizerFiles(*spm)->tokenizer_json);
  const json theirs = json::parse(ReadBytes(*folder / "hf_json/llama2/tokenizer.json"));
  CHECK(ours["model"]["vocab"].size() == theirs["model"]["vocab"].size());
  const auto merges = [](const json& tokenizer) {
    const auto list = tokenizer["model"]["merges"].get<std::vector<std::string>>();
    return std::set<std::string>(list.begin(), list.end());
  };
  std::vector<std::string> missing;
  const std::set<std::string> a = merges(ours), b = merges(theirs);
  std::set_difference(b.begin(), b.end(), a.begin(), a.end(), std::back_inserter(missing));
  CHECK(a.size() == b.size());
  CHECK(missing.size() <= 3);  // that file has blanks where the model has no-break spaces
}

}  // namespace
}  // namespace ftune
