// Small tokenizers that the wheels `tokenizers` and `sentencepiece` have made
// (tests/golden/tokenizer_golden.py), and what they make of texts.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "data/tokenizer/gguf_pre_tokenizer.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/utf8.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace ftune {
namespace {

using nlohmann::json;

// The wheels give a part of a character the place of the whole, and what was put before the text that of its
// first character; we are exact. So a span lies in the wheel's, and together they leave out nothing.
void CheckSpans(const std::string& text, const Encoding& encoding, const json& wheel, bool drops_text) {
  REQUIRE(encoding.spans.size() == encoding.ids.size());
  int64_t done = 0;
  for (size_t i = 0; i < encoding.spans.size(); ++i) {
    const TextSpan span = encoding.spans[i];
    if (!wheel.is_null()) {
      CHECK(wheel[i][0].get<int64_t>() <= span.begin);
      CHECK(span.end <= wheel[i][1].get<int64_t>());
      if (drops_text) CHECK(span == TextSpan{wheel[i][0].get<int64_t>(), wheel[i][1].get<int64_t>()});
    }
    if (drops_text) continue;
    CHECK(span.begin <= done);                        // no gap
    if (!wheel.is_null()) CHECK(span.begin == done);  // no overlap either, if nothing was composed
    CHECK(span.end >= span.begin);
    done = std::max(done, span.end);
  }
  if (!drops_text) CHECK(done == static_cast<int64_t>(text.size()));
}

void CheckFixture(const std::string& name, bool drops_text = false) {
  CAPTURE(name);
  const json fixture = Fixture(name);
  const auto tokenizer = LoadFixture(fixture);
  CHECK(fixture["cases"].size() > 20);
  for (const json& entry : fixture["cases"]) {
    const std::string text = entry["text"];
    CAPTURE(text);
    const Encoding encoding = tokenizer->Encode(text);
    CHECK(encoding.ids == entry["ids"].get<std::vector<int32_t>>());
    CheckSpans(text, encoding, entry["spans"], drops_text);
    CHECK(tokenizer->Encode(text, {.add_special_tokens = true}).ids ==
          entry["special_ids"].get<std::vector<int32_t>>());
    CHECK(tokenizer->Decode(encoding.ids, false) == entry["decoded"].get<std::string>());
    CHECK(tokenizer->Decode(encoding.ids, true) == entry["decoded_plain"].get<std::string>());
    CHECK(tokenizer->Encode(text).ids == encoding.ids);  // the second time from the cache
  }
}

// What a decoder gives out for one id after another: whole characters, in all what Decode gives.
void CheckStream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  const auto decoder = tokenizer.MakeDecoder(skip_special);
  std::string streamed;
  size_t broken = 0;
  const auto take = [&](const std::string& text) {
    size_t bad = 0;
    ValidUtf8Prefix(text, 0, &bad);
    broken += bad;
    streamed += text;
  };
  for (const int32_t id : ids) take(decoder->Push(id));
  take(decoder->Finish());
  CHECK(broken == 0);
  CHECK(streamed == tokenizer.Decode(ids, skip_special));
}

TEST_CASE("text comes in whole characters, id by id, from texts and from any ids") {
  for (const char* name :
       {"falcon", "gpt2", "llama2", "llama3", "metaspace_first", "qwen", "smollm", "sentencepiece"}) {
    CAPTURE(name);
    const json fixture = Fixture(name);
    const auto tokenizer = LoadFixture(fixture);
    for (const json& entry : fixture["cases"]) {
      CheckStream(*tokenizer, tokenizer->Encode(entry["text"].get<std::string>()).ids, false);
    }
    std::mt19937 random(7);
    for (int i = 0; i < 200; ++i) {
      std::vector<int32_t> ids(random() % 30);
      // Bytes come first in all of these vocabularies: among few ids, characters are cut everywhere.
      const int64_t most =
          i % 2 == 0 ? tokenizer->vocab_size() : std::min<int64_t>(tokenizer->vocab_size(), 260);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % most);
      CheckStream(*tokenizer, ids, i % 3 == 0);
    }
  }
}

TEST_CASE("byte-level tokenizers equal the wheel's") {
  CheckFixture("gpt2");
  CheckFixture("gpt2_prefix_space");
  CheckFixture("smollm");
  CheckFixture("llama3");
  CheckFixture("qwen");
  CheckFixture("falcon");
}

TEST_CASE("SentencePiece-like tokenizers equal the wheel's") {
  CheckFixture("llama2");
  CheckFixture("metaspace_first");
}

TEST_CASE("words with unknown characters equal the wheel's") { CheckFixture("unknown_characters", true); }

TEST_CASE("byte-level spans are exactly the bytes of their tokens") {
  const json fixture = Fixture("gpt2");
  const auto tokenizer = LoadFixture(fixture);
  for (const json& entry : fixture["cases"]) {
    const std::string text = entry["text"];
    const Encoding encoding = tokenizer->Encode(text);
    for (size_t i = 0; i < encoding.ids.size(); ++i) {
      const TextSpan span = encoding.spans[i];
      const std::string bytes = text.substr(span.begin, span.end - span.begin);
      CHECK(tokenizer->Encode(bytes).ids.size() >= 1);
      size_t chars = 0;  // of the token's byte-level text: one for each byte
      for (const char c : tokenizer->IdToToken(encoding.ids[i]))
        chars += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
      CHECK((chars == bytes.size() || tokenizer->IsSpecial(encoding.ids[i])));
    }
  }
}

TEST_CASE("a SentencePiece model equals the library's own binding") {
  const json fixture = Fixture("sentencepiece");
  const auto tokenizer = LoadFixture(fixture);
  CHECK(fixture["cases"].size() > 15);
  for (const json& entry : fixture["cases"]) {
    const std::string text = entry["text"];
    CAPTURE(text);
    const Encoding encoding = tokenizer->Encode(text);
    REQUIRE(encoding.ids == entry["ids"].get<std::vector<int32_t>>());
    int64_t done = 0;
    for (size_t i = 0; i < encoding.spans.size(); ++i) {
      const TextSpan span = encoding.spans[i];
      CHECK(span.begin == done);
      done = span.end;
      if (tokenizer->IdToToken(encoding.ids[i]).starts_with("<0x")) {
        CHECK(span.end == span.begin + 1);  // where the binding gives the last byte of a character all of it
      } else {
        CHECK(span == TextSpan{entry["spans"][i][0], entry["spans"][i][1]});
      }
    }
    CHECK(done == static_cast<int64_t>(text.size()));
    CHECK(tokenizer->Decode(encoding.ids, false) == entry["decoded"].get<std::string>());
  }
}

TEST_CASE("text is split as the models that GGUF files name split it") {
  const json fixture = Fixture("gguf_pre_tokenizers");
  CHECK(fixture["pieces"].size() > 10);
  for (const auto& [name, expected] : fixture["pieces"].items()) {
    CAPTURE(name);
    const auto made = MakeGgufPreTokenizer(name, "a.gguf");
    REQUIRE_MESSAGE(made.ok(), std::string(made.status().message()));
    for (size_t i = 0; i < fixture["texts"].size(); ++i) {
      const std::string text = fixture["texts"][i];
      CAPTURE(text);
      Pieces pieces;
      pieces.text = AlignedView{text};
      pieces.pieces.push_back({0, text.size()});
      for (const auto& step : made->steps.steps) step->Apply(pieces);
      std::vector<std::string> split;
      for (const TextPiece& piece : pieces.pieces) {
        split.push_back(text.substr(piece.begin, piece.end - piece.begin));
      }
      CHECK(split == expected[i].get<std::vector<std::string>>());
    }
  }
}

TEST_CASE("each pre-tokenizer that GGUF files name can be made") {
  for (const char* name : {"llama3",       "llama-v3",      "falcon3",     "falcon-h1",
                           "pixtral",      "lfm2",          "llama4",      "dbrx",
                           "smaug-bpe",    "glm4",          "chatglm-bpe", "deepseek-r1-qwen",
                           "megrez",       "stablelm2",     "hunyuan",     "phi-2",
                           "mpt",          "olmo",          "exaone4",     "modern-bert",
                           "gigachat",     "mellum",        "jais",        "trillion",
                           "refact",       "codeshell",     "exaone",      "minerva-7b",
                           "deepseek-llm", "hunyuan-dense", "default",     ""}) {
    CAPTURE(name);
    const auto made = MakeGgufPreTokenizer(name, "a.gguf");
    REQUIRE_MESSAGE(made.ok(), std::string(made.status().message()));
    CHECK(made->steps.byte_level);
    CHECK(!made->steps.steps.empty());
  }
}

TEST_CASE("control symbols of a SentencePiece model are cut out of the text") {
  const json fixture = Fixture("sentencepiece");
  TempFolder folder;
  WriteFixture(fixture, folder);
  const auto tokenizer = Loaded(LoadTokenizer(folder.path()));
  const int32_t start = *tokenizer->TokenToId("<|im_start|>");
  const Encoding parsed = tokenizer->Encode("<|im_start|>a b");
  REQUIRE(parsed.ids.size() > 1);
  CHECK(parsed.ids[0] == start);
  CHECK(parsed.spans[0] == TextSpan{0, 12});
  CHECK(parsed.spans[1].begin == 12);
  const Encoding text = tokenizer->Encode("<|im_start|>a b", {.parse_special = false});
  CHECK(std::find(text.ids.begin(), text.ids.end(), start) == text.ids.end());
  CHECK(tokenizer->IsSpecial(start));
  CHECK(tokenizer->Decode(parsed.ids, true) == "a b");
  CHECK(tokenizer->Decode(parsed.ids, false) == "<|im_start|>a b");
  CHECK(tokenizer->special().bos->text == "<s>");
  CHECK(tokenizer->Encode("a", {.add_special_tokens = true}).ids[0] == tokenizer->special().bos->id);
  // Bytes that are not UTF-8 are encoded as U+FFFD is.
  const Encoding broken = tokenizer->Encode("a\xFFz");
  CHECK(broken.ids == tokenizer->Encode("a\uFFFDz").ids);
  CHECK(broken.spans.back() == TextSpan{2, 3});

  // Not legacy: only the first text has a space put before it.
  WriteBytes(folder / "tokenizer_config.json",
             R"({"legacy": false, "add_bos_token": false, "add_eos_token": true})");
  const auto modern = Loaded(LoadTokenizer(folder.path()));
  CHECK(modern->Encode("a<|im_end|>a").ids != tokenizer->Encode("a<|im_end|>a").ids);
  const Encoding turns = modern->Encode("a<|im_end|> a", {.add_special_tokens = true});
  CHECK(turns.ids.back() == modern->special().eos->id);
  CHECK(turns.spans.back() == TextSpan{13, 13});
  CHECK(turns.ids.front() != modern->special().bos->id);
  CHECK(modern->Decode(turns.ids, true) == "a a");

  // Mistral's name for it.
  std::filesystem::rename(folder / "tokenizer.model", folder / "tokenizer.model.v3");
  CHECK(Loaded(LoadTokenizer(folder.path()))->Encode("a b").ids == modern->Encode("a b").ids);
}

}  // namespace
}  // namespace ftune
