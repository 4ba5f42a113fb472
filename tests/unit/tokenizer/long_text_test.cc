// A megabyte in one line: work that grows with the square of its length would go on for hours, beyond the
// limit of the test `long_texts` in tests/CMakeLists.txt, which alone runs these.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "tests/unit/base/material.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace ftune {
namespace {

constexpr size_t kBytes = 1 << 20;

std::string Repeat(std::string_view part) {
  std::string text;
  while (text.size() < kBytes) text += part;
  return text;
}

// By name. No text ends in white space but those that have nothing else.
std::vector<std::pair<const char*, std::string>> LongTexts() {
  std::string letters, words, chinese;
  for (uint64_t i = 0; letters.size() < kBytes; ++i)
    letters.push_back(static_cast<char>('a' + (i * i * 7 + i / 3) % 26));
  for (uint64_t i = 0; words.size() < kBytes; ++i) {
    words += letters.substr((i * 7919) % (kBytes / 2), 1 + i % 11);
    words.push_back(' ');
  }
  words.back() = 'x';
  for (uint64_t i = 0; chinese.size() < kBytes; ++i) {
    const auto c = static_cast<uint32_t>(0x4E00 + i * i % 0x5000);
    chinese += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                static_cast<char>(0x80 | (c & 63))};
  }
  return {{"words", words},
          {"letters", letters},
          {"Chinese", chinese},
          {"one letter", Repeat("a")},
          {"spaces", Repeat(" ")},
          {"spaces before a letter", Repeat(" ") + "a"},
          {"ends of lines", Repeat("\r\n")},
          {"digits", Repeat("1234567890")},
          {"marks", Repeat("=-/")},
          {"combining marks", "a" + Repeat("\u0301\u0327")},
          {"the space of SentencePiece", Repeat("\u2581")},
          {"bytes that are no UTF-8", Repeat("\xFF")},
          {"control tokens", Repeat("<|im_start|>")},
          {"starts of control tokens", Repeat("<|im_start")}};
}

// Encoding comes to an end and leaves out no part of the text; decoding comes to an end, too.
void CheckLongTexts(const Tokenizer& tokenizer) {
  for (const auto& [name, text] : LongTexts()) {
    CAPTURE(name);
    const Encoding encoding = tokenizer.Encode(text, {.add_special_tokens = true});
    int64_t done = 0;
    bool gap = false;
    for (const TextSpan& span : encoding.spans) {
      gap |= span.begin > done;
      done = std::max(done, span.end);
    }
    CHECK(!gap);
    CHECK(done == static_cast<int64_t>(text.size()));
    std::string streamed;
    const auto decoder = tokenizer.MakeDecoder(true);
    for (const int32_t id : encoding.ids) streamed += decoder->Push(id);
    streamed += decoder->Finish();
    CHECK(streamed == tokenizer.Decode(encoding.ids, true));
  }
}

TEST_CASE("a megabyte in one line: small tokenizers of all kinds" * doctest::skip()) {
  for (const char* name : {"falcon", "gpt2", "gpt2_prefix_space", "llama2", "llama3", "metaspace_first",
                           "qwen", "smollm", "sentencepiece"}) {
    CAPTURE(name);
    CheckLongTexts(*LoadFixture(Fixture(name)));
  }
}

TEST_CASE("a megabyte in one line: real tokenizers" * doctest::skip()) {
  for (const std::string_view name :
       {"hf_json/llama2", "hf_json/phi-3-mini", "npm_big/llama3", "npm_big/qwen3",
        "spm/llama2_tokenizer.model", "llamacpp_vocab/ggml-vocab-llama-spm.gguf",
        "llamacpp_vocab/ggml-vocab-gpt-2.gguf"}) {
    const auto path = Material(StrCat("tokenizers/", name));
    if (!path) continue;
    CAPTURE(*path);
    CheckLongTexts(*Loaded(LoadTokenizer(*path)));
  }
}

}  // namespace
}  // namespace ftune
