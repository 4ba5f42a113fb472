#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "cmd/recipe/node.h"

namespace ftune {
namespace {

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<Node> node = ParseYaml(text, "f");
  return node.ok() ? "" : std::string(node.status().message());
}

std::string Flow(const std::string& text) {
  const absl::StatusOr<Node> node = ParseYaml(text, "f");
  return node.ok() ? WriteFlow(*node) : std::string(node.status().message());
}

TEST_CASE("a tree with lines, quotes and repeated keys") {
  const absl::StatusOr<Node> node = ParseYaml("a: 1\nb:\n  - \"2\"\n  - x\na:\nc: {d: ~}\n", "f");
  REQUIRE(node.ok());
  REQUIRE(node->entries.size() == 4);
  CHECK(node->entries[0].key == "a");
  CHECK(node->entries[0].value.text == "1");
  CHECK_FALSE(node->entries[0].value.quoted);
  CHECK(node->entries[1].value.items[0].quoted);
  CHECK(node->entries[1].value.items[1].line == 4);
  CHECK(node->entries[2].key == "a");
  CHECK(node->entries[2].value.is_null());
  CHECK(node->entries[2].value.line == 5);
  CHECK(node->entries[3].value.entries[0].value.is_null());
}

TEST_CASE("anchors and merge keys") {
  CHECK(Flow("a: &x [1, 2]\nb: *x") == "{a: [1, 2], b: [1, 2]}");
  CHECK(Flow("base: &b {r: 8, s: 1}\nuse:\n  <<: *b\n  r: 16") == "{base: {r: 8, s: 1}, use: {r: 16, s: 1}}");
  CHECK(Flow("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}") ==
        "{a: {x: 1}, b: {x: 2, \"y\": 2}, c: {x: 1, \"y\": 2}}");
  CHECK(ErrorOf("a: {<<: 3}") ==
        "f:1: error: <<: only maps can be merged; write `<<: *name` of a map's anchor");
}

TEST_CASE("broken YAML is one message with its line") {
  CHECK(ErrorOf("a: 1\nb: [1, 2\nc: 3\n") ==
        "f:3: error: not valid YAML: a list that opens with [ is not closed; add ]");
  CHECK(ErrorOf("a: {b: 1\n") == "f:1: error: not valid YAML: a map that opens with { is not closed; add }");
  CHECK(ErrorOf("a: x: y\n") ==
        "f:1: error: not valid YAML: a colon where no value can stand; indent the line as its neighbours "
        "are, or quote a "
        "value that contains ': '");
  CHECK(ErrorOf("a:\n  b: 1\n c: 2\n") ==
        "f:3: error: not valid YAML: this line does not fit those above it; indent the keys of a section "
        "equally");
  CHECK(ErrorOf("a: 1\n}\n") ==
        "f:2: error: not valid YAML: a bracket closes that was never opened; remove it, or quote the value");
  CHECK(ErrorOf("a: @x\n") ==
        "f:1: error: not valid YAML: a value begins with a character that YAML reserves; put the value in "
        "quotes");
  CHECK(ErrorOf("a: *x\n") ==
        "f:1: error: not valid YAML: a value that begins with * refers to an anchor that is missing; put the "
        "value in "
        "quotes if it is text");
  CHECK(ErrorOf("a: 1\nb: \"x\nc: 2\n") == "f:2: error: the quote that opens here is never closed; close it");
  CHECK(ErrorOf("a: 'x") == "f:1: error: the quote that opens here is never closed; close it");
  CHECK(ErrorOf("a: 1\n---\nb: 2\n") ==
        "f:2: error: a second YAML document begins here; a file has one recipe: remove the rest");
  CHECK(ErrorOf("? [x]\n: 1\n") == "f:1: error: a key is not a word; write `key: value`");
  CHECK(ErrorOf("a: !!python/object x\n") ==
        "f:1: error: the YAML tag tag:yaml.org,2002:python/object means nothing in a recipe; remove it");
}

TEST_CASE("tabs") {
  const std::string message =
      "the line is indented by a tab; indent by spaces: YAML does not allow tabs there";
  CHECK(ErrorOf("a:\n\tb: 1\n") == "f:2: error: " + message);
  CHECK(ErrorOf("a:\n  b: 1\n\tc: 2\n") == "f:3: error: " + message);
  CHECK(ErrorOf("\ta: 1\n") == "f:1: error: " + message);
  CHECK(Flow("a:\tx\nb: 1 \t# tab\n") == "{a: x, b: 1}");  // between words they are fine
}

TEST_CASE("a text cannot grow or nest without bound") {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string before = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    bomb += name + ": &" + name + " [" + before;
    for (int j = 0; j < 9; ++j) bomb += ", " + before;
    bomb += "]\n";
  }
  CHECK(ErrorOf(bomb) == "f:5: error: too many values, expected at most 100000");
  CHECK(ErrorOf("a: &a [*a]\n") == "f:1: error: an alias stands within what it names; write the value out");
  CHECK(ErrorOf("a: " + std::string(100000, '[')) ==
        "f:1: error: nested too deeply, expected at most 32 levels");
  std::string deep = "a0: &a0 [x]\n";
  for (int i = 1; i < 40; ++i) {
    deep += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  }
  CHECK(ErrorOf(deep).find("nested too deeply") != std::string::npos);
}

TEST_CASE("text is written so that it reads back as it was") {
  for (const std::string text :
       {"plain", "runs/x.y-z",   "",           " ",    "null",  "~",      "true",   "No",
        "12",    "1e3",          "2026-01-01", "a: b", "a #b",  "- a",    "*a",     "&a",
        "[a]",   "{a}",          "'",          "\"",   "\\",    "a\nb\n", "\t",     "é 漢字 😀",
        "a,b",   "!x",           "%x",         "@x",   "`x",    "#",      "x\r\ny", "<<",
        "=",     "\x01\x04\x7f", "0x10",       ".5",   "./x y", "..",     "\u2028", "\u0085"}) {
    CAPTURE(text);
    Node map = Node::Map();
    map.At("a") = Node::Text(text);
    map.At("b") = Node::List({Node::Text(text), Node::Text("x")});
    map.At("c") = Node::Map();
    map.At("c").At("d") = Node::Text(text);
    const absl::StatusOr<Node> read = ParseYaml(WriteYaml(map), "f");
    REQUIRE(read.ok());
    for (const Node& node :
         {read->entries[0].value, read->entries[1].value.items[0], read->entries[2].value.entries[0].value}) {
      CHECK(node.is_scalar());
      CHECK(node.text == text);
    }
  }
}

}  // namespace
}  // namespace ftune
