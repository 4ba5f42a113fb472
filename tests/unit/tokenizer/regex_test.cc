// Oniguruma's patterns run by PCRE2. What is expected here is what the wheel `tokenizers` (which runs
// Oniguruma) does.
#include "data/tokenizer/regex.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

// The matches, each in brackets, and what is between.
std::string Marked(const absl::StatusOr<Regex>& regex, std::string_view text) {
  if (!regex.ok()) return std::string(regex.status().message());
  std::string marked;
  size_t done = 0;
  Regex::Matcher matcher(*regex);
  ForEachMatch(matcher, text, [&](size_t begin, size_t end) {
    marked.append(text, done, begin - done);
    marked.append("[").append(text, begin, end - begin).append("]");
    done = end;
  });
  return marked.append(text, done);
}

std::string Matches(std::string_view pattern, std::string_view text) {
  return Marked(Regex::Compile(pattern), text);
}

TEST_CASE("white space is Unicode's, without U+180E") {
  CHECK(Matches(R"(\s+)", "a \t\r\n\v\f\u0085\u00A0\u3000b") == "a[ \t\r\n\v\f\u0085\u00A0\u3000]b");
  CHECK(Matches(R"(\s)", "\u180E\u200B") == "\u180E\u200B");
  CHECK(Matches(R"([^\S])", "\u180E \u2028") == "\u180E[ ][\u2028]");
  CHECK(Matches(R"(\S+)", "a \u180E") == "[a] [\u180E]");
}

TEST_CASE("words and digits") {
  CHECK(Matches(R"(\w+)", "a_1\u0301 \u00BD \u2460") == "[a_1\u0301] [\u00BD] \u2460");
  CHECK(Matches(R"([\w]+)", "a_1\u0301 \u00BD") == "[a_1\u0301] \u00BD");
  CHECK(Matches(R"([^\W\d]+)", "ab12") == "[ab]12");
  CHECK(Matches(R"(\d)", "1\u0661\u00B2") == "[1][\u0661]\u00B2");
  CHECK(Matches(R"(\h+)", "xaF9 g") == "x[aF9] g");
  CHECK(Matches(R"(\bb)", "ab b\u0301b") == "ab [b]\u0301b");
}

TEST_CASE("properties by long and short names, scripts without extensions") {
  CHECK(Matches(R"(\p{Letter}+)", "ab1") == "[ab]1");
  CHECK(Matches(R"(\p{^L}+)", "ab12") == "ab[12]");
  CHECK(Matches(R"(\P{L})", "a1") == "a[1]");
  CHECK(Matches(R"(\p{Uppercase_Letter})", "aB") == "a[B]");
  CHECK(Matches(R"(\p{Han}+)", "\u8A9E\u3001\u306E") == "[\u8A9E]\u3001\u306E");
  CHECK(Matches(R"([[:punct:]]+)", ".<\u2122") == "[.<\u2122]");
  CHECK(Matches(R"(\p{Punct}+)", ".<\u2122") == "[.]<\u2122");
  CHECK(Matches(R"([[:^alpha:]]+)", "a1") == "a[1]");
}

TEST_CASE("sets within sets, and intersections") {
  CHECK(Matches("[a-d&&[^b]]+", "abcd") == "[a]b[cd]");
  CHECK(Matches("[a-c[x-z]]+", "axd") == "[ax]d");
  CHECK(Matches("[^a-c[x-z]]+", "axd") == "ax[d]");
  CHECK(Matches("[^a-z&&[^aeiou]]+", "ab1") == "[a]b[1]");
  CHECK(Matches(R"([\]\-a]+)", "a]-b") == "[a]-]b");
  CHECK(Matches("[]a]", "]") == "[]]");
}

TEST_CASE("repeats of repeats") {
  CHECK(Matches("a{2}+", "aaaaa") == "[aaaa]a");    // no possessive interval
  CHECK(Matches("a{1,2}?", "aaa") == "[a][a][a]");  // lazy
  CHECK(Matches("a{2}?b", "aabb") == "[aab][b]");   // an optional a{2}
  CHECK(Matches("a{,2}b", "aaab") == "a[aab]");
  CHECK(Matches("a{x", "a{x") == "[a{x]");
  CHECK(Matches("a++a", "aaa") == "aaa");
}

TEST_CASE("options and folding") {
  CHECK(Matches("(?i:'s|'ll)", "'S 'LL '\u017F") == "['S] ['LL] ['\u017F]");
  CHECK(Matches("a(?i)b|c", "aB C ac") == "[aB] C [ac]");  // as a(?i:b|c)
  CHECK(Matches("(?m:.)+", "a\nb") == "[a\nb]");
  CHECK(Matches(".+", "a\nb\r") == "[a]\n[b\r]");
  CHECK(Matches("^.|.$", "ab\ncd") == "[a][b]\n[c][d]");
}

TEST_CASE("empty matches do not follow a match") {
  CHECK(Matches("x*", "axb") == "[]a[x]b[]");
  CHECK(Matches("(?=[A-Z])", "aBC") == "a[]B[]C");
  CHECK(Matches("x*", "\u00E9") == "[]\u00E9[]");
}

TEST_CASE("look-behind, references, named groups") {
  CHECK(Matches("(?<=a)b", "ab b") == "a[b] b");
  CHECK(Matches(R"((a|b)\1)", "aab") == "[aa]b");
  CHECK(Matches(R"((?<n>.)\k<n>)", "xyyz") == "x[yy]z");
  CHECK(Matches(R"(\u00e9|\x{1F600}|\x41)", "\u00E9\U0001F600A") == "[\u00E9][\U0001F600][A]");
}

TEST_CASE("a text as a pattern matches itself only") {
  const std::string text = R"(a.b*[c]\d^$#-{1})";
  CHECK(Marked(Regex::CompileLiteral(text), "x" + text + "axb") == "x[" + text + "]axb");
  CHECK(Marked(Regex::CompileLiteral("\u2581"), "\u2581a") == "[\u2581]a");
}

TEST_CASE("long runs need more stack than there is at first") {
  const std::string text(1 << 20, 'a');
  CHECK(Matches("(?:a|b)+", text).size() == text.size() + 2);
  const std::string spaces(1 << 20, ' ');
  CHECK(Matches(R"(\s+(?!\S)|\s+)", spaces + "x") == "[" + spaces.substr(1) + "][ ]x");
}

TEST_CASE("what cannot be used is named") {
  CHECK(NotSaid(Regex::Compile("ab(c").status(), "a group that is not closed", "ab(c") == "");
  CHECK(NotSaid(Regex::Compile("ab)").status(), "without its partner", "byte 2") == "");
  CHECK(NotSaid(Regex::Compile("[ab").status(), "a set that is not closed") == "");
  CHECK(NotSaid(Regex::Compile("[[[[").status(), "a set that is not closed") == "");
  CHECK(NotSaid(Regex::Compile("[z-a]").status(), "a range that is empty") == "");
  CHECK(NotSaid(Regex::Compile(R"(\X)").status(), "the escape \\X") == "");
  CHECK(NotSaid(Regex::Compile("a\\").status(), "a backslash at the end") == "");
  CHECK(NotSaid(Regex::Compile("[a\\").status(), "a backslash at the end") == "");
  CHECK(NotSaid(Regex::Compile("(?~ab)").status(), "(?~") == "");
  CHECK(NotSaid(Regex::Compile(R"(\p{Nonesuch})").status(), "unknown property") == "");
  CHECK(NotSaid(Regex::Compile(R"(\pL)").status(), "a property without braces") == "");
  CHECK(NotSaid(Regex::Compile(R"(\x{110000})").status(), "\\x that is no character") == "");
  CHECK(NotSaid(Regex::Compile(R"(\u12)").status(), "\\u without four digits") == "");
  CHECK(NotSaid(Regex::Compile("{2}").status(), "a repeat of nothing") == "");
  CHECK(NotSaid(Regex::Compile("+").status(), "cannot be used") == "");
  CHECK(NotSaid(Regex::Compile("\xFF").status(), "not UTF-8") == "");
  CHECK(NotSaid(Regex::Compile(std::string(1000, '(')).status(), "too many nested groups") == "");
  CHECK(NotSaid(Regex::Compile(std::string(1000, '[')).status(), "too many nested sets") == "");
}

}  // namespace
}  // namespace ftune
