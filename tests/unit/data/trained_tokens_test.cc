#include "data/source/trained_tokens.h"

#include <doctest/doctest.h>

namespace ftune {
namespace {

using Flags = std::vector<uint8_t>;
using Spans = std::vector<TextSpan>;

TEST_CASE("tokens at the boundaries of a span") {
  const std::string text = "ab\n\ncd  ef\n\n";  // the span is [4, 10): "cd  ef"
  const Spans span = {{4, 10}};
  const auto flags = [&](Spans tokens) { return TokensInSpans(text, tokens, span); };
  CHECK(flags({{0, 2}, {2, 4}, {4, 6}, {6, 10}, {10, 12}}) == Flags{0, 0, 1, 1, 0});
  CHECK(flags({{3, 5}}) == Flags{0});             // begins before, with a line end
  CHECK(flags({{9, 11}}) == Flags{1});            // begins inside, runs out behind
  CHECK(flags({{10, 11}}) == Flags{0});           // touches the end
  CHECK(flags({{0, 12}}) == Flags{0});            // covers all of it, and words before
  CHECK(flags({{4, 4}, {5, 5}}) == Flags{0, 0});  // no text
}

TEST_CASE("a space before the span belongs to the word") {
  const std::string text = "[/INST]  Yes";
  const Spans span = {{9, 12}};
  CHECK(TokensInSpans(text, Spans{{8, 12}, {7, 12}, {6, 12}, {7, 9}}, span) == Flags{1, 1, 0, 0});
}

TEST_CASE("a token without text goes with the one before which it was put") {
  const std::string text = "<s>1<s>2";
  const Spans tokens = {{0, 0}, {0, 3}, {3, 3}, {3, 4}, {4, 7}, {7, 7}, {7, 7}, {7, 8}, {8, 8}};
  CHECK(TokensInSpans(text, tokens, Spans{{3, 7}}) == Flags{0, 0, 1, 1, 1, 0, 0, 0, 0});
  CHECK(TokensInSpans(text, tokens, Spans{{7, 8}}) == Flags{0, 0, 0, 0, 0, 1, 1, 1, 0});
  CHECK(TokensInSpans(text, tokens, Spans{{0, 8}}) == Flags{0, 1, 1, 1, 1, 1, 1, 1, 0});
}

TEST_CASE("several spans, and bytes of one character") {
  const std::string text = "aüb·c";  // a 1, ü 2, b 1, · 2, c 1
  const Spans spans = {{1, 3}, {4, 6}};
  CHECK(TokensInSpans(text, Spans{{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 7}}, spans) ==
        Flags{0, 1, 1, 0, 1, 1});
  CHECK(TokensInSpans(text, Spans{{0, 1}, {6, 7}}, Spans{}) == Flags{0, 0});
}

}  // namespace
}  // namespace ftune
