#include "data/tokenizer/pre_tokenizer.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "data/tokenizer/unicode_class.h"

namespace ftune {
namespace {

// The pieces, with '|' between.
template <typename... Steps>
std::string Split(std::string_view text, Steps... steps) {
  Pieces pieces;
  pieces.text = AlignedView{text};
  if (!text.empty()) pieces.pieces.push_back({0, text.size()});
  (steps->Apply(pieces), ...);
  std::vector<std::string> shown;
  for (const TextPiece& piece : pieces.pieces) {
    shown.emplace_back(pieces.text.text.substr(piece.begin, piece.end - piece.begin));
  }
  return StrJoin(shown, "|");
}

std::unique_ptr<PreTokenizer> SplitAt(std::string_view pattern, SplitBehavior behavior, bool invert = false) {
  auto regex = Regex::Compile(pattern);
  REQUIRE(regex.ok());
  return MakeSplit(*std::move(regex), behavior, invert);
}

TEST_CASE("what becomes of delimiters") {
  const std::string text = "the-final--countdown";
  CHECK(Split(text, SplitAt("-", SplitBehavior::kRemoved)) == "the|final|countdown");
  CHECK(Split(text, SplitAt("-", SplitBehavior::kIsolated)) == "the|-|final|-|-|countdown");
  CHECK(Split(text, SplitAt("-", SplitBehavior::kMergedWithPrevious)) == "the-|final-|-|countdown");
  CHECK(Split(text, SplitAt("-", SplitBehavior::kMergedWithNext)) == "the|-final|-|-countdown");
  CHECK(Split(text, SplitAt("-", SplitBehavior::kContiguous)) == "the|-|final|--|countdown");
  CHECK(Split(text, SplitAt("[a-z]+", SplitBehavior::kRemoved, true)) == "the|final|countdown");
  CHECK(Split(text, SplitAt("[a-z]+", SplitBehavior::kMergedWithPrevious, true)) == "the-|final--|countdown");
  CHECK(Split("-a", SplitAt("-", SplitBehavior::kMergedWithPrevious)) == "-|a");
  CHECK(Split("a-", SplitAt("-", SplitBehavior::kMergedWithNext)) == "a|-");
  CHECK(Split("", SplitAt("-", SplitBehavior::kIsolated)).empty());
}

TEST_CASE("a pattern sees its piece only") {
  // The space before "b" is the last of its piece, so that no character follows it.
  CHECK(Split("a  |b", SplitAt(R"(\|)", SplitBehavior::kRemoved),
              SplitAt(R"(\s+(?!\S))", SplitBehavior::kIsolated)) == "a|  |b");
  CHECK(Split("a-b", SplitAt("-", SplitBehavior::kRemoved), SplitAt("^b", SplitBehavior::kIsolated)) ==
        "a|b");
}

TEST_CASE("GPT-2's pattern") {
  CHECK(Split("I've  12 cats!\n\n x", SplitAt(kGpt2Pattern, SplitBehavior::kIsolated)) ==
        "I|'ve| | 12| cats|!|\n\n| x");
}

TEST_CASE("classes of characters") {
  CHECK(Split("a12\u00BDb", MakeClassSplit(IsUnicodeNumeric, SplitBehavior::kIsolated)) == "a|1|2|\u00BD|b");
  CHECK(Split("a12b", MakeClassSplit(IsUnicodeNumeric, SplitBehavior::kContiguous)) == "a|12|b");
  CHECK(Split("a$b\u3002", MakeClassSplit(IsPunctuation, SplitBehavior::kIsolated)) == "a|$|b|\u3002");
  CHECK(Split("a \u3000b", MakeClassSplit(IsUnicodeSpace, SplitBehavior::kRemoved)) == "a|b");
  CHECK(Split("a,b", MakeCharSplit(',', SplitBehavior::kRemoved)) == "a|b");
  CHECK(Split("it's  a_b \u0301x!?", MakeWhitespace()) == "it|'|s|a_b|\u0301x|!?");
}

TEST_CASE("Metaspace") {
  const auto next = [] { return MakeCharSplit(U'\u2581', SplitBehavior::kMergedWithNext); };
  CHECK(Split("a  b", MakeMetaspace(U'\u2581', PrependScheme::kAlways), next()) == "\u2581a|\u2581|\u2581b");
  CHECK(Split("a b", MakeMetaspace(U'\u2581', PrependScheme::kNever), next()) == "a|\u2581b");
  CHECK(Split(" a", MakeMetaspace(U'\u2581', PrependScheme::kAlways)) == "\u2581a");
  CHECK(Split("a|b", SplitAt(R"(\|)", SplitBehavior::kRemoved), MakeMetaspace(U'_', PrependScheme::kFirst)) ==
        "_a|b");
  Pieces later;
  later.text = AlignedView{"a", nullptr, 5};  // not the start of the text
  later.pieces = {{0, 1}};
  MakeMetaspace(U'_', PrependScheme::kFirst)->Apply(later);
  CHECK(later.text.text == "a");
}

TEST_CASE("bytes: as characters where a step follows, else left to the model") {
  CHECK(Split("a \u00B2", MakeByteLevelMap(), MakeClassSplit(IsUnicodeNumeric, SplitBehavior::kIsolated)) ==
        "a\u0120\u00C2|\u00B2");
  CHECK(Split("a|b", SplitAt(R"(\|)", SplitBehavior::kRemoved), MakePrefixSpace()) == " a| b");
  CHECK(Split(" a", MakePrefixSpace()) == " a");
  PreTokenizerSteps steps;
  steps.Add(MakePrefixSpace());
  steps.byte_level = true;
  CHECK(steps.steps.size() == 1);
  steps.Add(MakeWhitespace());
  CHECK(steps.steps.size() == 3);
  CHECK(!steps.byte_level);
}

}  // namespace
}  // namespace ftune
