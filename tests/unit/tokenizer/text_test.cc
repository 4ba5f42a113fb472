// UTF-8, the byte-level alphabet, and text that knows its place.
#include <doctest/doctest.h>

#include <set>

#include "data/tokenizer/aligned_text.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

TEST_CASE("each maximal piece that is not UTF-8 becomes one U+FFFD") {
  // As bytes.decode(errors="replace") of Python has it.
  const std::string r = "\xEF\xBF\xBD";
  CHECK(LossyUtf8("plain") == "plain");
  CHECK(LossyUtf8("\xE2\x82\xAC") == "\xE2\x82\xAC");
  CHECK(LossyUtf8("a\xFF"
                  "b") == "a" + r + "b");
  CHECK(LossyUtf8("\xE2\x82") == r);  // cut short: one piece
  CHECK(LossyUtf8("\xE2\x82"
                  "A") == r + "A");
  CHECK(LossyUtf8("\xF0\x9F\x98"
                  "A") == r + "A");
  CHECK(LossyUtf8("\xC0\xAF") == r + r);                  // overlong
  CHECK(LossyUtf8("\xED\xA0\x80") == r + r + r);          // a surrogate
  CHECK(LossyUtf8("\xF4\x90\x80\x80") == r + r + r + r);  // behind U+10FFFF
  CHECK(LossyUtf8("12345678\x80"
                  "12345678") == "12345678" + r + "12345678");
}

TEST_CASE("characters are read and written") {
  for (const char32_t c : {U'a', U'\x7F', U'\x80', U'\x7FF', U'\x800', U'\xFFFF', U'\x10000', U'\x10FFFF'}) {
    std::string text = "x";
    AppendUtf8(text, c);
    size_t position = 1;
    CHECK(NextChar(text, &position) == c);
    CHECK(position == text.size());
    CHECK(PreviousBoundary(text, text.size()) == 1);
  }
}

TEST_CASE("the byte-level alphabet has one printable character for each byte") {
  std::set<char32_t> chars;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = ByteLevelChar(static_cast<uint8_t>(byte));
    CHECK(ByteOfByteLevelChar(c) == byte);
    CHECK(c > 0x20);
    chars.insert(c);
  }
  CHECK(chars.size() == 256);
  CHECK(ToByteLevel(" a\n") == "\u0120a\u010A");
  CHECK(FromByteLevel("\u0120a\u010A") == " a\n");
  CHECK(!FromByteLevel("a b"));  // a space stands for no byte
  CHECK(!FromByteLevel("\u0144\u65E5"));
}

TEST_CASE("repaired text points at the bytes that were broken") {
  AlignedBuffer storage;
  const AlignedView good = AsUtf8("h\u00E9", storage);
  CHECK(good.spans == nullptr);
  const AlignedView view = AsUtf8("a\xFF\xE2\x82z", storage);
  REQUIRE(view.text == "a\uFFFD\uFFFDz");
  CHECK(view.Span(1, 4) == TextSpan{1, 2});
  CHECK(view.Span(4, 7) == TextSpan{2, 4});
  CHECK(view.Span(7, 8) == TextSpan{4, 5});
  CHECK(view.Slice(4, 8).Span(3, 4) == TextSpan{4, 5});
}

TEST_CASE("an empty range is a point") {
  const AlignedView plain{"abc", nullptr, 10};
  CHECK(plain.Span(1, 1) == TextSpan{11, 11});
  AlignedBuffer buffer;
  buffer.Clear(10);
  CHECK(buffer.view().Span(0, 0) == TextSpan{10, 10});
  buffer.Append("xy", {12, 15});
  CHECK(buffer.view().Span(0, 0) == TextSpan{12, 12});
  CHECK(buffer.view().Span(2, 2) == TextSpan{15, 15});
}

}  // namespace
}  // namespace ftune
