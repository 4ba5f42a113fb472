#include "data/tokenizer/normalizer.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace ftune {
namespace {

struct Result {
  std::string text;
  std::vector<TextSpan> spans;  // of each byte
};

template <typename... Steps>
Result Run(std::string_view text, Steps... steps) {
  std::vector<std::unique_ptr<Normalizer>> list;
  (list.push_back(std::move(steps)), ...);
  NormalizerStorage storage;
  const AlignedView view = Normalize(list, AlignedView{text}, storage);
  Result result{std::string(view.text)};
  for (size_t i = 0; i < view.text.size(); ++i) result.spans.push_back(view.Span(i, i + 1));
  return result;
}

TEST_CASE("Unicode forms") {
  CHECK(Run("e\u0301", MakeUnicodeForm(UnicodeForm::kNfc)).text == "\u00E9");
  CHECK(Run("\u00E9", MakeUnicodeForm(UnicodeForm::kNfd)).text == "e\u0301");
  CHECK(Run("\uFB01\u2460", MakeUnicodeForm(UnicodeForm::kNfkc)).text == "fi1");
  CHECK(Run("\u00E9\uFB01", MakeUnicodeForm(UnicodeForm::kNfkd)).text == "e\u0301fi");
  CHECK(Run("\u1112\u1161\u11AB", MakeUnicodeForm(UnicodeForm::kNfc)).text == "\uD55C");
  CHECK(Run("a\u0301\u0323", MakeUnicodeForm(UnicodeForm::kNfc)).text == "\u1EA1\u0301");  // reordered
  // The same for many marks, which are ordered otherwise.
  std::string mixed = "x\uFB01e", below, above;
  for (int i = 0; i < 500; ++i) {
    mixed += "\u0301\u0323";
    if (i > 0) below += "\u0323";
    above += "\u0301";
  }
  mixed += "\u00E9";
  CHECK(Run(mixed, MakeUnicodeForm(UnicodeForm::kNfc)).text == "x\uFB01\u1EB9" + below + above + "\u00E9");
  CHECK(Run(mixed, MakeUnicodeForm(UnicodeForm::kNfkc)).text == "xfi\u1EB9" + below + above + "\u00E9");
  CHECK(Run(mixed, MakeUnicodeForm(UnicodeForm::kNfd)).text == "x\uFB01e\u0323" + below + above + "e\u0301");
  CHECK(Run("plain", MakeUnicodeForm(UnicodeForm::kNfd)).text == "plain");
}

TEST_CASE("composed characters stem from all their parts, their neighbours from themselves") {
  const Result result = Run("xe\u0301y", MakeUnicodeForm(UnicodeForm::kNfc));
  REQUIRE(result.text == "x\u00E9y");
  CHECK(result.spans == std::vector<TextSpan>{{0, 1}, {1, 4}, {1, 4}, {4, 5}});
  // The cedilla composes, the circle below it does not and stays in its place.
  const Result tail = Run("c\u0327\u0325", MakeUnicodeForm(UnicodeForm::kNfc));
  REQUIRE(tail.text == "\u00E7\u0325");
  CHECK(tail.spans.back() == TextSpan{4, 5});
}

TEST_CASE("case, accents and white space") {
  CHECK(Run("AbC\u00C9\u0130\u03A3", MakeLowercase()).text == "abc\u00E9i\u0307\u03C3");
  CHECK(Run("e\u0301a\u20DD", MakeStripAccents()).text == "ea");
  CHECK(Run(" \u3000a b\n", MakeStrip(true, true)).text == "a b");
  CHECK(Run(" a ", MakeStrip(true, false)).text == "a ");
  CHECK(Run(" a ", MakeStrip(false, true)).text == " a");
  CHECK(Run("   ", MakeStrip(true, true)).text.empty());
}

TEST_CASE("SentencePiece's spaces: what is put before the text stems from nothing") {
  const Result result = Run("a b", MakePrepend("\u2581"), MakeReplaceText(" ", "\u2581"));
  REQUIRE(result.text == "\u2581a\u2581b");
  CHECK(result.spans ==
        std::vector<TextSpan>{{0, 0}, {0, 0}, {0, 0}, {0, 1}, {1, 2}, {1, 2}, {1, 2}, {2, 3}});
  CHECK(Run("", MakePrepend("\u2581")).text.empty());
}

TEST_CASE("patterns are replaced by text as it stands") {
  auto regex = Regex::Compile("a(b+)");
  REQUIRE(regex.ok());
  const Result result = Run("xabby", MakeReplace(*regex, "$1"));
  REQUIRE(result.text == "x$1y");
  CHECK(result.spans == std::vector<TextSpan>{{0, 1}, {1, 4}, {1, 4}, {4, 5}});
}

TEST_CASE("bytes become characters of the byte-level alphabet") {
  const Result result = Run(" \u00E9", MakeByteLevelNormalizer());
  REQUIRE(result.text == "\u0120\u00C3\u00A9");
  CHECK(result.spans.back() == TextSpan{2, 3});
}

}  // namespace
}  // namespace ftune
