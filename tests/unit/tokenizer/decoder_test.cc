#include "data/tokenizer/decoder.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/strings.h"

namespace ftune {
namespace {

std::string Decode(std::vector<std::string> tokens, std::unique_ptr<Decoder> decoder) {
  decoder->Apply(tokens);
  return StrJoin(tokens, "|");
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

}  // namespace
}  // namespace ftune
