#include "data/tokenizer/decoder.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/strings.h"

namespace ftune {
namespace {

// What a decoder makes of tokens, "|" between them.
class Collector : public DecodeSink {
 public:
  void Text(std::string_view part) override { token_.append(part); }
  void EndToken() override {
    tokens_.push_back(token_);
    token_.clear();
  }
  void Finish() override { finished_ = true; }
  std::string All() const {
    CHECK(finished_);
    CHECK(token_.empty());
    return StrJoin(tokens_, "|");
  }

 private:
  std::string token_;
  std::vector<std::string> tokens_;
  bool finished_ = false;
};

std::string Decode(const std::vector<std::string>& tokens, const std::unique_ptr<Decoder>& decoder) {
  Collector whole, parts;
  const auto sink = decoder->Start(whole);
  const auto byte_sink = decoder->Start(parts);
  for (const std::string& token : tokens) {
    sink->Token(token);
    for (const char byte : token) byte_sink->Text(std::string(1, byte));
    byte_sink->EndToken();
  }
  sink->Finish();
  byte_sink->Finish();
  CHECK(whole.All() == parts.All());
  return whole.All();
}

TEST_CASE("bytes are joined before they are read as UTF-8") {
  CHECK(Decode({"\u0120a", "\u00C3", "\u00A9"}, MakeByteLevelDecoder()) == " a\u00E9");
  CHECK(Decode({"\u00C3", "a"}, MakeByteLevelDecoder()) == "\uFFFDa");
  CHECK(Decode({"<|a b|>"}, MakeByteLevelDecoder()) == "<|a b|>");  // no byte-level text
}

TEST_CASE("byte tokens") {
  CHECK(Decode({"a", "<0xC3>", "<0xA9>", "b"}, MakeByteFallbackDecoder()) == "a|\u00E9|b");
  CHECK(Decode({"<0xC3>", "<0x41>", "b"}, MakeByteFallbackDecoder()) == "\uFFFD|\uFFFD|b");
  CHECK(Decode({"<0xc3>", "<0xa9>"}, MakeByteFallbackDecoder()) == "\u00E9");
  CHECK(Decode({"<0xZZ>", "<0x1>", "<0x-1>"}, MakeByteFallbackDecoder()) == "<0xZZ>|<0x1>|<0x-1>");
}

TEST_CASE("SentencePiece's steps") {
  auto pattern = Regex::CompileLiteral("\u2581");
  REQUIRE(pattern.ok());
  CHECK(Decode({"\u2581a", "\u2581\u2581"}, MakeReplaceDecoder(*pattern, " ")) == " a|  ");
  CHECK(Decode({"a", "b"}, MakeFuseDecoder()) == "ab");
  CHECK(Decode({"  a "}, MakeStripDecoder(' ', 1, 0)) == " a ");
  CHECK(Decode({"  a  "}, MakeStripDecoder(' ', 0, 1)) == "  a ");
  CHECK(Decode({" "}, MakeStripDecoder(' ', 1, 1)).empty());
  CHECK(Decode({"\u2581a", "\u2581b"}, MakeMetaspaceDecoder(U'\u2581', true)) == "a| b");
  CHECK(Decode({"\u2581a", "\u2581b"}, MakeMetaspaceDecoder(U'\u2581', false)) == " a| b");
}

TEST_CASE("the ends of tokens") {
  CHECK(Decode({"abcabcx", "abab", "abc", "ab"}, MakeStripDecoder('a', 2, 0)) == "bcabcx|bab|bc|b");
  CHECK(Decode({"xaaa", "aa", "axa", "\u00E9a"}, MakeStripDecoder('a', 0, 2)) == "xa||ax|\u00E9");
  CHECK(Decode({"\u00E9\u00E8\u00E9"}, MakeStripDecoder(U'\u00E9', 1, 1)) == "\u00E8");
  CHECK(Decode({"a</w>", "b", "c</w>"}, MakeBpeDecoder("</w>")) == "a |b|c");
  CHECK(Decode({"a", "", "b"}, MakeSpacedDecoder()) == "a| | b");
}

TEST_CASE("a chain gives out what is certain") {
  auto pattern = Regex::CompileLiteral("\u2581");
  REQUIRE(pattern.ok());
  std::vector<std::unique_ptr<Decoder>> steps;
  steps.push_back(MakeReplaceDecoder(*pattern, " "));
  steps.push_back(MakeByteFallbackDecoder());
  steps.push_back(MakeFuseDecoder());
  steps.push_back(MakeStripDecoder(' ', 1, 0));
  DecoderChain chain(steps);
  chain.Push("\u2581a");
  CHECK(chain.Take() == "a");
  chain.Push("\u2581b");
  CHECK(chain.Take() == " b");
  for (const char* byte : {"<0xE6>", "<0x97>", "<0xA5>"}) {
    chain.Push(byte);
    CHECK(chain.Take() == "");
  }
  chain.Push("c");
  CHECK(chain.Take() == "\u65E5c");
  chain.Push("<0xE6>");
  CHECK(chain.Take() == "");
  chain.Finish();
  CHECK(chain.Take() == "\uFFFD");

  std::vector<std::unique_ptr<Decoder>> bytes;
  bytes.push_back(MakeByteLevelDecoder());
  DecoderChain level(bytes);
  const std::pair<const char*, const char*> pushed[] = {
      {"a", "a"},     {"\u00E6", ""},   {"\u0139", ""},       {"\u00A5", "\u65E5"},
      {"\u00E6", ""}, {"b", "\uFFFDb"}, {"\u00FF", "\uFFFD"}, {"\u00E6", ""}};
  for (const auto& [token, text] : pushed) {
    CAPTURE(token);
    level.Push(token);
    CHECK(level.Take() == text);
  }
  level.Finish();
  CHECK(level.Take() == "\uFFFD");
}

}  // namespace
}  // namespace ftune
