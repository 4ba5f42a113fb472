// A YAML document as a tree that keeps what a recipe needs: lines, quotes, and keys in order, even repeated
// ones.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry;

  Kind kind = Kind::kNull;
  int line = 0;                // 1-based, 0 if unknown
  bool quoted = false;         // a scalar that is text whatever it looks like
  std::string text;            // kScalar
  std::vector<Node> items;     // kList
  std::vector<Entry> entries;  // kMap

  bool is_null() const { return kind == Kind::kNull; }
  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }

  // A scalar that YAML may read as it likes (a number, true, a word).
  static Node Plain(std::string text);
  // Text: written in quotes where YAML would read something else without.
  static Node Text(std::string text);
  static Node List(std::vector<Node> items);
  static Node Map();

  // The entry of that key of a map, added at the end if missing.
  Node& At(std::string_view key);
};

struct Node::Entry {
  std::string key;
  int line = 0;
  Node value;
  std::string comment = "";  // written behind the value, where that is not a map in block style
};

// The one document of a YAML text; `file` is only named in errors, which give the line. Anchors, aliases and
// merge keys are resolved (limited, so that a small text cannot become a large tree); a repeated key is kept
// for the caller to see. An empty text gives a null node.
absl::StatusOr<Node> ParseYaml(std::string_view text, const std::string& file);

// YAML: maps in block style, lists and what is in them in flow style. Reads back equal, by other YAML readers
// too.
std::string WriteYaml(const Node& map);
// On one line.
std::string WriteFlow(const Node& node);

}  // namespace ftune
