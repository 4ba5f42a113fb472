#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "base/strings.h"
#include "cmd/recipe/node.h"

namespace ftune {
namespace {

// Words that some YAML reader takes for something other than text.
constexpr std::array kReserved = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};

bool IsAsciiAlpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool IsSafePlain(const std::string& text) {
  if (text.empty()) return false;
  const bool is_path = (text[0] == '.' || text[0] == '/') && text.find('/') != std::string::npos;
  if (!IsAsciiAlpha(text[0]) && text[0] != '_' && !is_path) return false;
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return IsAsciiAlpha(c) || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == '/';
  });
  return plain && std::find(kReserved.begin(), kReserved.end(), Lower(text)) == kReserved.end();
}

// A JSON string is a YAML double-quoted scalar.
std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string KeyText(const std::string& key) { return IsSafePlain(key) ? key : Quoted(key); }

void WriteBlock(const Node& map, int indent, std::string& out) {
  for (const Node::Entry& entry : map.entries) {
    StrAppend(out, std::string(indent, ' '), KeyText(entry.key), ":");
    if (entry.value.is_map() && !entry.value.entries.empty()) {
      out.push_back('\n');
      WriteBlock(entry.value, indent + 2, out);
    } else {
      const std::string comment = entry.comment.empty() ? "" : StrCat("  # ", entry.comment);
      StrAppend(out, " ", WriteFlow(entry.value), comment, "\n");
    }
  }
}

}  // namespace

Node Node::Plain(std::string text) {
  Node node;
  node.kind = Kind::kScalar;
  node.text = std::move(text);
  return node;
}

Node Node::Text(std::string text) {
  Node node = Plain(std::move(text));
  node.quoted = !IsSafePlain(node.text);
  return node;
}

Node Node::List(std::vector<Node> items) {
  Node node;
  node.kind = Kind::kList;
  node.items = std::move(items);
  return node;
}

Node Node::Map() {
  Node node;
  node.kind = Kind::kMap;
  return node;
}

Node& Node::At(std::string_view key) {
  for (Entry& entry : entries) {
    if (entry.key == key) return entry.value;
  }
  entries.push_back({std::string(key), 0, Node()});
  return entries.back().value;
}

std::string WriteFlow(const Node& node) {
  std::vector<std::string> parts;
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kScalar:
      return node.quoted ? Quoted(node.text) : node.text;
    case Node::Kind::kList:
      for (const Node& item : node.items) parts.push_back(WriteFlow(item));
      return StrCat("[", StrJoin(parts, ", "), "]");
    case Node::Kind::kMap:
      for (const Node::Entry& entry : node.entries) {
        parts.push_back(StrCat(KeyText(entry.key), ": ", WriteFlow(entry.value)));
      }
      return StrCat("{", StrJoin(parts, ", "), "}");
  }
  return "";
}

std::string WriteYaml(const Node& map) {
  std::string out;
  WriteBlock(map, 0, out);
  return out;
}

}  // namespace ftune
