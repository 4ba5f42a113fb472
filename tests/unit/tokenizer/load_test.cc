// Right and wrong tokenizer files of all kinds.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "tests/unit/base/gguf_builder.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace ftune {
namespace {

using nlohmann::json;

// A byte-level tokenizer of a few tokens, to be changed by tests.
json TinyTokenizer() {
  return json::parse(R"({
    "version": "1.0",
    "added_tokens": [
      {"id": 5, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
       "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "\u0120": 3, "\u0120a": 4},
              "merges": [["a", "b"], "\u0120 a"]}})");
}

struct Loader {
  TempFolder folder;

  absl::StatusOr<std::unique_ptr<Tokenizer>> operator()(const json& tokenizer) {
    WriteBytes(folder / "tokenizer.json", tokenizer.dump());
    return LoadTokenizer(folder.path());
  }
  absl::Status Error(const json& tokenizer) { return (*this)(tokenizer).status(); }
};

TEST_CASE("a tokenizer.json is read") {
  Loader load;
  const auto tokenizer = Loaded(load(TinyTokenizer()));
  CHECK(tokenizer->vocab_size() == 6);
  CHECK(tokenizer->Encode("ab a<s>").ids == std::vector<int32_t>{2, 4, 5});
  CHECK(tokenizer->Encode("ab", {.add_special_tokens = true}).ids == std::vector<int32_t>{5, 2});
  CHECK(tokenizer->Encode("ab", {.add_special_tokens = true}).spans[0] == TextSpan{0, 0});
  CHECK(tokenizer->TokenToId("\u0120a") == 4);
  CHECK(tokenizer->TokenToId("<s>") == 5);
  CHECK(!tokenizer->TokenToId("x"));
  CHECK(tokenizer->IdToToken(2) == "ab");
  CHECK(tokenizer->IdToToken(5) == "<s>");
  CHECK(tokenizer->IdToToken(6) == "");
  CHECK(tokenizer->IdToToken(-1) == "");
  CHECK(tokenizer->IsSpecial(5));
  CHECK(!tokenizer->IsSpecial(0));
  CHECK(tokenizer->Decode(std::vector<int32_t>{5, 2, 4, 99, -1}, true) == "ab a");
  CHECK(tokenizer->Decode(std::vector<int32_t>{5, 2, 4}, false) == "<s>ab a");
  CHECK(!tokenizer->special().bos);
  CHECK(tokenizer->chat_template().empty());
}

TEST_CASE("control tokens in the text are text if they are not parsed") {
  Loader load;
  json file = TinyTokenizer();
  file["model"]["vocab"]["<"] = 6;
  file["model"]["vocab"]["s"] = 7;
  file["model"]["vocab"][">"] = 8;
  const auto tokenizer = Loaded(load(file));
  CHECK(tokenizer->Encode("<s>", {.parse_special = false}).ids == std::vector<int32_t>{6, 7, 8});
}

TEST_CASE("an added token that the model has keeps the model's id") {
  Loader load;
  json file = TinyTokenizer();
  file["added_tokens"].push_back({{"id", 9}, {"content", "ab"}, {"special", false}});
  const auto tokenizer = Loaded(load(file));
  CHECK(tokenizer->Encode("ab").ids == std::vector<int32_t>{2});
  CHECK(tokenizer->TokenToId("ab") == 2);
}

TEST_CASE("a normalized added token is looked for in the normalised text, others in the text as it is") {
  Loader load;
  json file = TinyTokenizer();
  file["normalizer"] = {{"type", "Lowercase"}};
  file["added_tokens"].push_back({{"id", 6}, {"content", "Day"}, {"normalized", true}});
  const auto tokenizer = Loaded(load(file));
  CHECK(tokenizer->Encode("DAYb").ids == std::vector<int32_t>{6, 1});
  CHECK(tokenizer->Encode("day").spans == std::vector<TextSpan>{{0, 3}});
  CHECK(tokenizer->Encode("<s>").ids == std::vector<int32_t>{5});
  CHECK(tokenizer->Encode("<S>").ids.empty());  // its characters are no tokens
}

TEST_CASE("a byte-level model with an end-of-word mark sees characters") {
  Loader load;
  json file = TinyTokenizer();
  file["model"]["vocab"]["b</w>"] = 6;
  file["model"]["vocab"]["ab</w>"] = 7;
  file["model"]["merges"] = json::array({json::array({"a", "b</w>"})});
  file["model"]["end_of_word_suffix"] = "</w>";
  CHECK(Loaded(load(file))->Encode("aab").ids == std::vector<int32_t>{0, 7});
}

TEST_CASE("what is not supported is refused by name") {
  Loader load;
  json file = TinyTokenizer();
  for (const char* type : {"WordPiece", "WordLevel", "Nonesuch"}) {
    file["model"]["type"] = type;
    CHECK(NotSaid(load.Error(file), "tokenizer.json", "model.type", type, "not supported",
                  "expected BPE or Unigram") == "");
  }
  file["model"] = {{"vocab", {{"a", 0}}}, {"max_input_chars_per_word", 100}};
  CHECK(NotSaid(load.Error(file), "model.type", "WordPiece") == "");
  file = TinyTokenizer();
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Nonesuch"}}}}};
  CHECK(NotSaid(load.Error(file), "tokenizer.json", "pre_tokenizer.pretokenizers[0].type", "Nonesuch",
                "not supported", "Metaspace") == "");
  file = TinyTokenizer();
  file["normalizer"] = {{"type", "Nonesuch"}};
  CHECK(NotSaid(load.Error(file), "normalizer.type", "Nonesuch", "not supported", "Precompiled") == "");
  file = TinyTokenizer();
  file["post_processor"] = {{"type", "Nonesuch"}};
  CHECK(NotSaid(load.Error(file), "post_processor.type", "Nonesuch", "not supported") == "");
  file = TinyTokenizer();
  file["decoder"] = {{"type", "CTC"}};
  CHECK(NotSaid(load.Error(file), "decoder.type", "CTC", "not supported") == "");
  file = TinyTokenizer();
  file["model"]["dropout"] = 0.1;
  CHECK(NotSaid(load.Error(file), "model.dropout", "0.1") == "");
}

TEST_CASE("a broken tokenizer.json is refused with the place") {
  Loader load;
  WriteBytes(load.folder / "tokenizer.json", "{\n\"model\": [\n");
  CHECK(NotSaid(LoadTokenizer(load.folder.path()).status(), "tokenizer.json:", "not valid JSON") == "");
  CHECK(NotSaid(load.Error(json::array()), "tokenizer.json", "model") == "");
  CHECK(NotSaid(load.Error(json::object()), "model", "found nothing") == "");
  json file = TinyTokenizer();
  file["model"]["merges"].push_back({"a", "x"});
  CHECK(NotSaid(load.Error(file), "model.merges.2", "[\"a\",\"x\"]") == "");
  file["model"]["merges"] = {"a b c"};
  CHECK(NotSaid(load.Error(file), "model.merges.0", "a b c") == "");
  file["model"]["merges"] = {1};
  CHECK(NotSaid(load.Error(file), "model.merges.0") == "");
  file["model"]["merges"] = 1;
  CHECK(NotSaid(load.Error(file), "model.merges", "a list of merges") == "");
  file = TinyTokenizer();
  file["model"]["vocab"]["c"] = 2;
  CHECK(NotSaid(load.Error(file), "model.vocab", "\"ab\"", "\"c\"") == "");
  file["model"]["vocab"]["c"] = -1;
  CHECK(NotSaid(load.Error(file), "model.vocab", "\"c\" has no id", "-1") == "");
  file["model"]["vocab"]["c"] = 4000000000u;
  CHECK(NotSaid(load.Error(file), "model.vocab", "4000000000") == "");
  file["model"]["vocab"] = 3;
  CHECK(NotSaid(load.Error(file), "model.vocab", "an object") == "");
  file = TinyTokenizer();
  file["model"]["unk_token"] = "<unk>";
  CHECK(NotSaid(load.Error(file), "model.unk_token", "<unk>") == "");
  file = TinyTokenizer();
  file["added_tokens"][0]["id"] = 2;
  CHECK(NotSaid(load.Error(file), "added_tokens[0]", "\"ab\"") == "");
  file["added_tokens"][0]["id"] = 1 << 30;
  CHECK(NotSaid(load.Error(file), "added_tokens[0]", "1073741824") == "");
  file["added_tokens"][0].erase("id");
  CHECK(NotSaid(load.Error(file), "added_tokens[0].id", "an integer") == "");
  file = TinyTokenizer();
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
  CHECK(NotSaid(load.Error(file), "pre_tokenizer.pattern.Regex", "(a", "not closed") == "");
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Apart"}};
  CHECK(NotSaid(load.Error(file), "pre_tokenizer.behavior", "Apart", "Isolated") == "");
  file["pre_tokenizer"] = {{"type", "Split"}, {"behavior", "Isolated"}};
  CHECK(NotSaid(load.Error(file), "pre_tokenizer.pattern.Regex", "found nothing") == "");
  file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "__"}};
  CHECK(NotSaid(load.Error(file), "pre_tokenizer.replacement", "one character") == "");
  file["pre_tokenizer"] = {{"add_prefix_space", true}};
  CHECK(NotSaid(load.Error(file), "pre_tokenizer.type", "a string") == "");
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", 1}};
  CHECK(NotSaid(load.Error(file), "pre_tokenizer.pretokenizers", "a list") == "");
  file = TinyTokenizer();
  file["post_processor"]["special_tokens"] = json::object();
  CHECK(NotSaid(load.Error(file), "post_processor.special_tokens.<s>.ids") == "");
  file = TinyTokenizer();
  file["post_processor"]["single"] = json::array();
  CHECK(NotSaid(load.Error(file), "post_processor.single", "the text") == "");
  file = TinyTokenizer();
  file["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", ""}}}, {"content", "x"}};
  CHECK(NotSaid(load.Error(file), "normalizer.pattern", "not empty") == "");
}

json TinyUnigram() {
  return json::parse(R"({"model": {"type": "Unigram", "unk_id": 0,
    "vocab": [["<unk>", 0], ["a", -2], ["b", -2], ["ab", -3.5], ["abb", -6.0], ["\u2581", -1]]}})");
}

TEST_CASE("Unigram takes the likeliest way") {
  Loader load;
  const auto tokenizer = Loaded(load(TinyUnigram()));
  CHECK(tokenizer->Encode("ab").ids == std::vector<int32_t>{3});
  CHECK(tokenizer->Encode("abb").ids == std::vector<int32_t>{3, 2});  // -5.5
  CHECK(tokenizer->Encode("ba").ids == std::vector<int32_t>{2, 1});
  const Encoding unknown = tokenizer->Encode("axyza");  // neighbours become one
  CHECK(unknown.ids == std::vector<int32_t>{1, 0, 1});
  CHECK(unknown.spans == std::vector<TextSpan>{{0, 1}, {1, 4}, {4, 5}});
  CHECK(tokenizer->special().unk->text == "<unk>");
  json file = TinyUnigram();
  file["model"]["byte_fallback"] = true;
  CHECK(Loaded(load(file))->Encode("x").ids == std::vector<int32_t>{0});  // not all bytes are there
  file["model"]["vocab"].push_back({"<0xC3>", 0});
  file["model"]["vocab"].push_back({"<0xA9>", 0});
  const Encoding bytes = Loaded(load(file))->Encode("a\u00E9x");
  CHECK(bytes.ids == std::vector<int32_t>{1, 0});  // "\u00E9x" as one, of which x has no token
  CHECK(Loaded(load(file))->Encode("a\u00E9a").ids == std::vector<int32_t>{1, 6, 7, 1});
  CHECK(Loaded(load(file))->Encode("a\u00E9a").spans[1] == TextSpan{1, 2});
  file = TinyUnigram();
  file["model"].erase("type");
  CHECK(Loaded(load(file))->Encode("ab").ids == std::vector<int32_t>{3});
}

TEST_CASE("a broken Unigram model is refused with the place") {
  Loader load;
  json file = TinyUnigram();
  file["model"]["unk_id"] = 6;
  CHECK(NotSaid(load.Error(file), "model.unk_id", "found 6", "below 6") == "");
  file["model"]["unk_id"] = nullptr;
  CHECK(NotSaid(load.Error(file), "model.unk_id", "found nothing") == "");
  file["model"]["vocab"][2] = {"b", "x"};
  CHECK(NotSaid(load.Error(file), "model.vocab.2", "[token, score]") == "");
  file["model"]["vocab"] = json::array();
  CHECK(NotSaid(load.Error(file), "model.vocab", "a list") == "");
  file = TinyUnigram();
  for (const char* table : {"", "!", "AAAA", "AAAAAA==", "/////w==", "BAAAAA==", "CAAAAAAAAAA="}) {
    CAPTURE(table);
    file["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", table}};
    CHECK(NotSaid(load.Error(file), "normalizer.precompiled_charsmap", "base64") == "");
  }
  file["normalizer"] = {{"type", "Precompiled"}};
  CHECK(NotSaid(load.Error(file), "normalizer.precompiled_charsmap", "found nothing") == "");
}

TEST_CASE("parts of old files that do not name their type") {
  Loader load;
  json file = TinyTokenizer();
  for (const char* part : {"model", "pre_tokenizer", "post_processor"}) file[part].erase("type");
  file["pre_tokenizer"]["trim_offsets"] = true;
  const auto tokenizer = Loaded(load(file));
  CHECK(tokenizer->Encode("ab a", {.add_special_tokens = true}).ids == std::vector<int32_t>{5, 2, 4});
  file["normalizer"] = {{"prepend", "b"}};
  file["decoder"] = {{"pattern", {{"String", "\u0120"}}}, {"content", "_"}};
  const auto changed = Loaded(load(file));
  CHECK(changed->Encode("a").ids == std::vector<int32_t>{1, 0});
  CHECK(changed->Decode(std::vector<int32_t>{1, 4}, false) == "b_a");
}

TEST_CASE("a folder without a tokenizer, and files that are none") {
  TempFolder folder;
  CHECK(NotSaid(LoadTokenizer(folder.path()).status(), "no tokenizer", "tokenizer.json or tokenizer.model") ==
        "");
  CHECK(NotSaid(LoadTokenizer(folder / "none").status(), "none", "no such file or folder") == "");
  WriteBytes(folder / "tokenizer.model", "not a model");
  CHECK(NotSaid(LoadTokenizer(folder.path()).status(), "tokenizer.model", "not a SentencePiece model") == "");
  WriteBytes(folder / "tokenizer.model", "");
  CHECK(NotSaid(LoadTokenizer(folder.path()).status(), "not a SentencePiece model") == "");
  WriteBytes(folder / "x.gguf", "GGUF");
  CHECK(!LoadTokenizer(folder / "x.gguf").ok());
}

TEST_CASE("special tokens by role and the chat template stand beside the tokenizer") {
  Loader load;
  json file = TinyTokenizer();
  file["added_tokens"].push_back({{"id", 6}, {"content", "</s>"}, {"special", true}});
  WriteBytes(load.folder / "tokenizer_config.json",
             R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null,
                 "unk_token": "<nowhere>", "chat_template": "plain"})");
  WriteBytes(load.folder / "special_tokens_map.json",
             R"({"bos_token": "</s>", "pad_token": {"content": "</s>"}})");
  const auto tokenizer = Loaded(load(file));
  REQUIRE(tokenizer->special().bos);
  CHECK(tokenizer->special().bos->text == "<s>");
  CHECK(tokenizer->special().bos->id == 5);
  REQUIRE(tokenizer->special().eos);
  CHECK(tokenizer->special().eos->id == 6);
  REQUIRE(tokenizer->special().pad);  // null in one file, named in the other
  CHECK(tokenizer->special().pad->text == "</s>");
  CHECK(!tokenizer->special().unk);  // named, but no token
  CHECK(tokenizer->chat_template() == "plain");

  WriteBytes(
      load.folder / "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  CHECK(Loaded(load(file))->chat_template() == "d");
  WriteBytes(
      load.folder / "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]})");
  CHECK(Loaded(load(file))->chat_template() == "d");
  WriteBytes(load.folder / "tokenizer_config.json",
             R"({"chat_template": [{"name": "only", "template": "o"}]})");
  CHECK(Loaded(load(file))->chat_template() == "o");
  WriteBytes(load.folder / "chat_template.jinja", "from the file\n");
  CHECK(Loaded(load(file))->chat_template() == "from the file\n");

  WriteBytes(load.folder / "tokenizer_config.json", R"({"bos_token": 5})");
  CHECK(NotSaid(load.Error(file), "tokenizer_config.json", "bos_token", "a string") == "");
  WriteBytes(load.folder / "tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "a"}}})");
  CHECK(NotSaid(load.Error(file), "added_tokens_decoder", "\"x\"") == "");
  WriteBytes(load.folder / "tokenizer_config.json", R"({"added_tokens_decoder": {"7": {}}})");
  CHECK(NotSaid(load.Error(file), "added_tokens_decoder.7.content") == "");
}

GgufBuilder TinyGpt2() {
  GgufBuilder gguf;
  gguf.Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", "gpt-2")
      .Texts("tokenizer.ggml.tokens", {"a", "b", "ab", "\u0120", "\u0120a", "<s>", "<u>"})
      .Ints("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 3, 4})
      .Texts("tokenizer.ggml.merges", {"a b", "\u0120 a"})
      .Int("tokenizer.ggml.bos_token_id", 5);
  return gguf;
}

struct GgufLoader {
  TempFolder folder;

  absl::StatusOr<std::unique_ptr<Tokenizer>> operator()(const GgufBuilder& gguf) {
    WriteBytes(folder / "m.gguf", gguf.Build());
    return LoadTokenizer(folder / "m.gguf");
  }
  absl::Status Error(const GgufBuilder& gguf) { return (*this)(gguf).status(); }
};

TEST_CASE("GGUF: byte-level BPE") {
  GgufLoader load;
  const auto tokenizer = Loaded(load(TinyGpt2().Text("tokenizer.chat_template", "{{ x }}")));
  CHECK(tokenizer->vocab_size() == 7);
  CHECK(tokenizer->Encode("ab a<s><u>").ids == std::vector<int32_t>{2, 4, 5, 6});
  CHECK(tokenizer->Encode("<s><u>", {.parse_special = false}).ids == std::vector<int32_t>{6});
  CHECK(tokenizer->Decode(std::vector<int32_t>{5, 2, 4, 6}, true) == "ab a<u>");
  CHECK(tokenizer->special().bos->text == "<s>");
  CHECK(!tokenizer->special().eos);
  CHECK(tokenizer->chat_template() == "{{ x }}");
  CHECK(tokenizer->Encode("a", {.add_special_tokens = true}).ids.size() == 1);
  const auto with_bos = Loaded(load(TinyGpt2().Bool("tokenizer.ggml.add_bos_token", true)));
  CHECK(with_bos->Encode("a", {.add_special_tokens = true}).ids == std::vector<int32_t>{5, 0});
}

TEST_CASE("GGUF: SentencePiece's BPE") {
  const auto llama = [] {
    GgufBuilder gguf;
    gguf.Text("tokenizer.ggml.model", "llama")
        .Texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "<0xFF>", "\u2581", "a", "\u2581a"})
        .Floats("tokenizer.ggml.scores", {0, 0, 0, 0, -2, -3, -1})
        .Ints("tokenizer.ggml.token_type", {2, 3, 3, 6, 1, 1, 1})
        .Int("tokenizer.ggml.bos_token_id", 1)
        .Int("tokenizer.ggml.eos_token_id", 2)
        .Int("tokenizer.ggml.unknown_token_id", 0);
    return gguf;
  };
  GgufLoader load;
  const auto tokenizer = Loaded(load(llama()));
  const Encoding encoding = tokenizer->Encode("a x</s>a", {.add_special_tokens = true});
  CHECK(encoding.ids == std::vector<int32_t>{1, 6, 4, 0, 2, 6});
  CHECK(encoding.spans == std::vector<TextSpan>{{0, 0}, {0, 1}, {1, 2}, {2, 3}, {3, 7}, {7, 8}});
  CHECK(tokenizer->Decode(std::vector<int32_t>{1, 6, 6}, true) == "a a");
  CHECK(tokenizer->special().unk->id == 0);
  const auto bare = Loaded(load(llama()
                                    .Bool("tokenizer.ggml.add_space_prefix", false)
                                    .Bool("tokenizer.ggml.add_bos_token", false)
                                    .Bool("tokenizer.ggml.add_eos_token", true)));
  CHECK(bare->Encode("a a", {.add_special_tokens = true}).ids == std::vector<int32_t>{5, 6, 2});
  CHECK(bare->Decode(std::vector<int32_t>{6}, true) == " a");

  // Text is never merged to a control token, however high its score.
  const auto control = Loaded(load(GgufBuilder()
                                       .Text("tokenizer.ggml.model", "llama")
                                       .Texts("tokenizer.ggml.tokens", {"<", "s", ">", "s>", "<s>", "\u2581"})
                                       .Floats("tokenizer.ggml.scores", {-1, -1, -1, -1, 0, -1})
                                       .Ints("tokenizer.ggml.token_type", {1, 1, 1, 1, 3, 1})));
  CHECK(control->Encode("<s>", {.parse_special = false}).ids == std::vector<int32_t>{5, 0, 3});

  GgufBuilder no_scores;
  no_scores.Text("tokenizer.ggml.model", "llama").Texts("tokenizer.ggml.tokens", {"a"});
  CHECK(NotSaid(load.Error(no_scores), "tokenizer.ggml.scores") == "");
  no_scores.Floats("tokenizer.ggml.scores", {0, 1});
  CHECK(NotSaid(load.Error(no_scores), "tokenizer.ggml.scores", "2 elements", "1, one for each") == "");
}

TEST_CASE("GGUF: special tokens of Phi-3 take the white space behind them") {
  GgufLoader load;
  const auto other = Loaded(load(TinyGpt2()));
  CHECK(other->Encode("<u> a").ids == std::vector<int32_t>{6, 4});
  const auto phi = Loaded(load(TinyGpt2().Text("general.name", "Phi3 Mini")));
  CHECK(phi->Encode("<u> a").ids == std::vector<int32_t>{6, 0});
  CHECK(phi->Encode("<s> a").ids == std::vector<int32_t>{5, 4});  // but not all of them
}

TEST_CASE("GGUF: what is wrong is named") {
  GgufLoader load;
  CHECK(NotSaid(load.Error(GgufBuilder()), "m.gguf", "tokenizer.ggml.model") == "");
  CHECK(NotSaid(load.Error(GgufBuilder().Text("tokenizer.ggml.model", "t5")), "t5", "gpt2 or llama") == "");
  CHECK(NotSaid(load.Error(GgufBuilder().Text("tokenizer.ggml.model", "gpt2")), "tokenizer.ggml.tokens") ==
        "");
  const auto tokens = [] {
    GgufBuilder gguf;
    gguf.Text("tokenizer.ggml.model", "gpt2").Texts("tokenizer.ggml.tokens", {"a", "b"});
    return gguf;
  };
  CHECK(NotSaid(load.Error(tokens().Text("tokenizer.ggml.pre", "nonesuch")), "tokenizer.ggml.pre", "nonesuch",
                "tokenizer.json") == "");
  CHECK(NotSaid(load.Error(tokens()), "tokenizer.ggml.merges") == "");
  CHECK(NotSaid(load.Error(tokens().Texts("tokenizer.ggml.merges", {"a b"})), "tokenizer.ggml.merges[0]",
                "a b") == "");
  CHECK(NotSaid(load.Error(tokens().Ints("tokenizer.ggml.token_type", {1})), "token_type", "1 elements") ==
        "");
  CHECK(NotSaid(load.Error(TinyGpt2().Int("tokenizer.ggml.eos_token_id", 7)), "eos_token_id", "found 7",
                "below 7") == "");
  GgufBuilder empty;
  empty.Text("tokenizer.ggml.model", "gpt2").Texts("tokenizer.ggml.tokens", {});
  CHECK(NotSaid(load.Error(empty), "tokenizer.ggml.tokens", "0 tokens") == "");
}

}  // namespace
}  // namespace ftune
