#include "data/tokenizer/added_tokens.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace ftune {
namespace {

// Tokens in brackets, other text in parentheses.
std::string Split(const std::vector<AddedToken>& tokens, std::string_view text, bool parse_special = true) {
  AddedTokenMatcher matcher;
  for (const AddedToken& token : tokens) matcher.Add(token.text, &token);
  std::vector<TextSection> sections;
  matcher.Split(text, parse_special, sections);
  std::string shown;
  for (const TextSection& section : sections) {
    shown += section.token != nullptr ? "[" : "(";
    shown += text.substr(section.begin, section.end - section.begin);
    shown += section.token != nullptr ? "]" : ")";
  }
  return shown;
}

TEST_CASE("the leftmost match is taken, the longest of those") {
  const std::vector<AddedToken> tokens = {{.text = "ab"}, {.text = "abcd"}, {.text = "bc"}, {.text = "<s>"}};
  CHECK(Split(tokens, "xabcdx") == "(x)[abcd](x)");
  CHECK(Split(tokens, "abcx") == "[ab](cx)");
  CHECK(Split(tokens, "<s><s>") == "[<s>][<s>]");
  CHECK(Split(tokens, "<s<s>") == "(<s)[<s>]");
  CHECK(Split(tokens, "").empty());
  CHECK(Split(tokens, "abc") == "[ab](c)");
  CHECK(Split({}, "abc") == "(abc)");
}

TEST_CASE("white space goes with tokens that strip") {
  const std::vector<AddedToken> left = {{.text = "<m>", .lstrip = true}};
  CHECK(Split(left, "a \t\u3000<m> b") == "(a)[ \t\u3000<m>]( b)");
  const std::vector<AddedToken> right = {{.text = "<m>", .rstrip = true}};
  CHECK(Split(right, "a <m> \n\u00A0b") == "(a )[<m> \n\u00A0](b)");
  const std::vector<AddedToken> both = {{.text = "<m>", .lstrip = true, .rstrip = true}};
  CHECK(Split(both, "<m>  <m> ") == "[<m>  ][<m> ]");
}

TEST_CASE("single words have no word character beside them") {
  const std::vector<AddedToken> tokens = {{.text = "ing", .single_word = true}};
  CHECK(Split(tokens, "king ing ing.") == "(king )[ing]( )[ing](.)");
  CHECK(Split(tokens, "\u00E9ing ing\u00E9") == "(\u00E9ing ing\u00E9)");
  CHECK(Split(tokens, "ing") == "[ing]");
}

TEST_CASE("special tokens are text when they are not parsed") {
  const std::vector<AddedToken> tokens = {{.text = "<s>", .special = true}, {.text = "<t>"}};
  CHECK(Split(tokens, "a<s>b<t>", true) == "(a)[<s>](b)[<t>]");
  CHECK(Split(tokens, "a<s>b<t>", false) == "(a<s>b)[<t>]");
}

TEST_CASE("a token without text matches nothing") { CHECK(Split({{.text = ""}}, "ab") == "(ab)"); }

}  // namespace
}  // namespace ftune
