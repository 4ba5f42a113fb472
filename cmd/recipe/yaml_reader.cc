#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/recipe/node.h"

namespace ftune {
namespace {

constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxNodes = 100000;  // aliases counted as often as they are used

// A comment put on a line behind the text. yaml-cpp 0.7 lets the end of the text close an open quote; then
// this stands in it.
constexpr char kEndMark[] = "#ftune:end-of-recipe";

size_t CountNodes(const Node& node) {
  size_t count = 1;
  for (const Node& item : node.items) count += CountNodes(item);
  for (const Node::Entry& entry : node.entries) count += CountNodes(entry.value);
  return count;
}

size_t Depth(const Node& node) {
  size_t depth = 0;
  for (const Node& item : node.items) depth = std::max(depth, Depth(item));
  for (const Node::Entry& entry : node.entries) depth = std::max(depth, Depth(entry.value));
  return depth + 1;
}

YAML::Mark MarkOf(int line) {
  YAML::Mark mark;
  mark.line = line - 1;
  return mark;
}

// Builds the tree from the parser's events. After the first error the rest is ignored.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string file) : file_(std::move(file)) {}

  Node&& TakeRoot() { return std::move(root_); }
  const std::optional<ErrorDetail>& error() const { return error_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 2) {
      Fail(mark, {.message = "a second YAML document begins here",
                  .hint = "a file has one recipe: remove the rest"});
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { Leaf(mark, anchor, Node()); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (value.find(kEndMark) != std::string::npos) {
      Fail(mark, {.message = "the quote that opens here is never closed", .hint = "close it"});
    }
    Node node = Node::Plain(value);
    node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    CheckTag(mark, tag,
             {"!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float",
              "tag:yaml.org,2002:bool"});
    Leaf(mark, anchor, std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (error_) return;
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      Fail(mark, {.message = "an alias stands within what it names", .hint = "write the value out"});
      return;
    }
    nodes_ += CountNodes(found->second) - 1;
    if (open_.size() + Depth(found->second) > kMaxDepth) {
      FailDepth(mark);
      return;
    }
    Leaf(mark, YAML::NullAnchor, Node(found->second));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    CheckTag(mark, tag, {"tag:yaml.org,2002:seq"});
    Open(mark, anchor, Node::List({}));
  }
  void OnSequenceEnd() override { Close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    CheckTag(mark, tag, {"tag:yaml.org,2002:map"});
    Open(mark, anchor, Node::Map());
  }
  void OnMapEnd() override { Close(); }

 private:
  struct OpenNode {
    Node node;
    YAML::anchor_t anchor;
    bool has_key = false;  // of a map: the next value belongs to the last entry
  };

  void Fail(const YAML::Mark& mark, ErrorDetail detail) {
    if (error_) return;
    detail.file = file_;
    detail.line = mark.line + 1;
    error_ = std::move(detail);
  }
  void FailDepth(const YAML::Mark& mark) {
    Fail(mark, {.message = "nested too deeply", .expected = StrCat("at most ", kMaxDepth, " levels")});
  }

  void CheckTag(const YAML::Mark& mark, const std::string& tag,
                std::initializer_list<std::string_view> known) {
    if (tag.empty() || tag == "?" || std::find(known.begin(), known.end(), tag) != known.end()) return;
    Fail(mark, {.message = StrCat("the YAML tag ", tag, " means nothing in a recipe"), .hint = "remove it"});
  }

  void Open(const YAML::Mark& mark, YAML::anchor_t anchor, Node node) {
    if (error_) return;
    if (open_.size() + 1 > kMaxDepth) {
      FailDepth(mark);
      return;
    }
    node.line = mark.line + 1;
    open_.push_back({std::move(node), anchor});
  }

  void Close() {
    if (error_) return;
    OpenNode closed = std::move(open_.back());
    open_.pop_back();
    if (closed.node.is_map() && !Merge(closed.node)) return;
    Leaf(MarkOf(closed.node.line), closed.anchor, std::move(closed.node));
  }

  // A finished node goes into the list or map that is open, or is the root.
  void Leaf(const YAML::Mark& mark, YAML::anchor_t anchor, Node node) {
    if (error_) return;
    if (++nodes_ > kMaxNodes) {
      Fail(mark, {.message = "too many values", .expected = StrCat("at most ", kMaxNodes)});
      return;
    }
    node.line = mark.line + 1;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = node;
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node.is_list()) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.has_key) {
      Node::Entry& entry = parent.node.entries.back();
      if (node.is_null()) node.line = entry.line;  // the parser gives the line after an empty value
      entry.value = std::move(node);
      parent.has_key = false;
    } else if (node.is_scalar()) {
      parent.node.entries.push_back({std::move(node.text), node.line, Node()});
      parent.has_key = true;
    } else {
      Fail(mark, {.message = "a key is not a word", .hint = "write `key: value`"});
    }
  }

  // `<<: *defaults` or `<<: [*a, *b]`: the entries of those maps that are not given already, the first map
  // first.
  bool Merge(Node& map) {
    const auto is_merge = [](const Node::Entry& entry) { return entry.key == "<<"; };
    std::vector<Node::Entry> merges;
    std::copy_if(map.entries.begin(), map.entries.end(), std::back_inserter(merges), is_merge);
    std::erase_if(map.entries, is_merge);
    std::set<std::string> given;
    for (const Node::Entry& entry : map.entries) given.insert(entry.key);
    for (const Node::Entry& merge : merges) {
      const std::vector<Node> sources = merge.value.is_list() ? merge.value.items : std::vector{merge.value};
      for (const Node& source : sources) {
        if (!source.is_map()) {
          Fail(MarkOf(merge.line), {.key = "<<",
                                    .message = "only maps can be merged",
                                    .hint = "write `<<: *name` of a map's anchor"});
          return false;
        }
        for (const Node::Entry& entry : source.entries) {
          if (given.insert(entry.key).second) map.entries.push_back(entry);
        }
      }
    }
    return true;
  }

  std::string file_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  Node root_;
  size_t nodes_ = 0;
  int documents_ = 0;
  std::optional<ErrorDetail> error_;
};

std::string_view LineOf(std::string_view text, int line) {
  for (int i = 1; i < line; ++i) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  return text.substr(0, text.find('\n'));
}

bool IsIndentedByTab(std::string_view line) {
  return line.substr(0, line.find_first_not_of(" \t")).find('\t') != std::string_view::npos;
}

struct Explanation {
  std::string_view parser;  // how yaml-cpp's message begins
  std::string_view message;
  std::string_view hint;
};

constexpr std::array kExplanations = {
    Explanation{"illegal map value", "a colon where no value can stand",
                "indent the line as its neighbours are, or quote a value that contains ': '"},
    Explanation{"end of map not found", "this line does not fit those above it",
                "indent the keys of a section equally"},
    Explanation{"end of sequence not found", "this line does not fit those above it",
                "indent the items of a list equally"},
    Explanation{"end of sequence flow not found", "a list that opens with [ is not closed", "add ]"},
    Explanation{"end of map flow not found", "a map that opens with { is not closed", "add }"},
    Explanation{"illegal flow end", "a bracket closes that was never opened",
                "remove it, or quote the value"},
    Explanation{"illegal block entry", "a list item where none can stand",
                "put the list on lines of its own"},
    Explanation{"unknown token", "a value begins with a character that YAML reserves",
                "put the value in quotes"},
    Explanation{"the referenced anchor is not defined",
                "a value that begins with * refers to an anchor that is missing",
                "put the value in quotes if it is text"},
};

ErrorDetail Explain(const YAML::Exception& exception, std::string_view text, const std::string& file) {
  const int lines =
      static_cast<int>(std::count(text.begin(), text.end(), '\n')) + (text.ends_with('\n') ? 0 : 1);
  ErrorDetail detail{.file = file, .line = std::clamp(exception.mark.line + 1, 1, lines)};
  if (IsIndentedByTab(LineOf(text, detail.line))) {
    detail.message = "the line is indented by a tab";
    detail.hint = "indent by spaces: YAML does not allow tabs there";
    return detail;
  }
  detail.message = StrCat("not valid YAML: ", exception.msg);
  for (const Explanation& known : kExplanations) {
    if (!exception.msg.starts_with(known.parser)) continue;
    detail.message = StrCat("not valid YAML: ", known.message);
    detail.hint = known.hint;
    break;
  }
  return detail;
}

}  // namespace

absl::StatusOr<Node> ParseYaml(std::string_view text, const std::string& file) {
  TreeBuilder builder(file);
  try {
    std::istringstream stream(StrCat(text, text.ends_with('\n') ? "" : "\n", kEndMark, "\n"));
    YAML::Parser parser(stream);
    while (!builder.error() && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& exception) {
    // What the builder saw came first.
    if (!builder.error()) return UsageError(Explain(exception, text, file));
  }
  if (builder.error()) return UsageError(*builder.error());
  return builder.TakeRoot();
}

}  // namespace ftune
