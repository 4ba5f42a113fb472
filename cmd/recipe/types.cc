#include "cmd/recipe/types.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/strings.h"
#include "cmd/recipe/nearest.h"
#include "cmd/recipe/units.h"

namespace ftune {
namespace {

constexpr size_t kLongestShown = 60;  // bytes of a value in a message

std::string Shortened(const std::string& text) {
  if (text.size() <= kLongestShown) return text;
  size_t end = kLongestShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character
  return StrCat(text.substr(0, end), "…");
}

std::string WholeNumber(int64_t value) { return StrCat(value); }

// "a number" and its bounds, in words.
template <class Number>
std::string WithBounds(const std::string& kind, const Number& low, bool low_included, const Number& high,
                       bool high_included, std::string (*format)(Number), bool has_low, bool has_high) {
  if (has_low && has_high) {
    return StrCat(kind, low_included ? " from " : " above ", format(low),
                  high_included ? " to " : " to below ", format(high));
  }
  if (has_low)
    return low_included ? StrCat(kind, " of ", format(low), " or more")
                        : StrCat(kind, " above ", format(low));
  if (has_high) return StrCat(kind, high_included ? " of at most " : " below ", format(high));
  return kind;
}

// A scalar type of plain (unquoted) text, read by `parse`, which gives nothing where the text is wrong.
template <class T>
Type<T> PlainType(const std::string& expected, Json schema,
                  std::function<std::optional<T>(const std::string&)> parse,
                  std::function<std::string(const T&)> format) {
  return {expected, std::move(schema),
          [=](const Node& node, const Where& where) -> std::optional<T> {
            std::optional<T> value = node.is_scalar() ? parse(node.text) : std::nullopt;
            if (value && node.quoted) {
              where.Wrong(node, expected, "remove the quotes");
              return std::nullopt;
            }
            if (!value) where.Wrong(node, expected);
            return value;
          },
          [=](const T& value) { return Node::Plain(format(value)); }};
}

bool IsModuleName(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

// "q_proj, v_proj" as names; nothing where a part is not a bare name.
std::optional<std::vector<std::string>> CommaSeparatedNames(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string name = text.substr(begin, end - begin);
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
    if (!IsModuleName(name)) return std::nullopt;
    names.push_back(std::move(name));
    begin = end + 1;
  }
  return names;
}

}  // namespace

void Where::Add(int line, ErrorDetail detail) const {
  detail.file = file;
  detail.line = line;
  detail.key = key;
  errors->push_back(std::move(detail));
}

void Where::Wrong(const Node& found, std::string expected, std::string hint) const {
  Add(found.line, {.found = DescribeNode(found), .expected = std::move(expected), .hint = std::move(hint)});
}

void Where::Repeated(int line, int first_line, std::string how) const {
  std::string message = "given twice";
  if (first_line > 0) StrAppend(message, " (first on line ", first_line, ")");
  Add(line, {.message = std::move(message), .hint = std::move(how)});
}

std::string DescribeNode(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing (null)";
    case Node::Kind::kScalar:
      return node.quoted ? StrCat("\"", Shortened(node.text), "\"") : Shortened(node.text);
    case Node::Kind::kList:
      return node.items.empty() ? "an empty list" : "a list";
    case Node::Kind::kMap:
      return "a map of keys";
  }
  return "";
}

Type<std::string> TextType(std::string expected) {
  return {expected, Json{{"type", "string"}, {"minLength", 1}},
          [=](const Node& node, const Where& where) -> std::optional<std::string> {
            if (node.is_scalar() && !node.text.empty()) return node.text;
            where.Wrong(node, expected);
            return std::nullopt;
          },
          [](const std::string& text) { return Node::Text(text); }};
}

Type<std::string> PathType(Type<std::string> type, std::function<PathUse(const std::string&)> use) {
  type.paths = [use = std::move(use)](std::string& text, const PathVisitor& visit) {
    visit(text, use(text));
  };
  return type;
}

Type<bool> BoolType() {
  return PlainType<bool>(
      "true or false", Json{{"type", "boolean"}},
      [](const std::string& text) -> std::optional<bool> {
        const std::string word = Lower(text);
        if (word == "true" || word == "yes" || word == "on") return true;
        if (word == "false" || word == "no" || word == "off") return false;
        return std::nullopt;
      },
      [](bool value) { return std::string(value ? "true" : "false"); });
}

Type<int64_t> IntType(int64_t min, int64_t max) {
  const bool bounded = max != std::numeric_limits<int64_t>::max();
  const std::string expected =
      WithBounds<int64_t>("a whole number", min, true, max, true, &WholeNumber, true, bounded);
  Json schema = {{"type", "integer"}, {"minimum", min}};
  if (bounded) schema["maximum"] = max;
  return PlainType<int64_t>(
      expected, std::move(schema),
      [=](const std::string& text) -> std::optional<int64_t> {
        const std::optional<int64_t> value = ParseInteger(text);
        return value && *value >= min && *value <= max ? value : std::nullopt;
      },
      &WholeNumber);
}

Type<double> NumberType(Range range) {
  Json schema = {{"type", "number"}};
  if (std::isfinite(range.above)) schema["exclusiveMinimum"] = range.above;
  if (std::isfinite(range.min)) schema["minimum"] = range.min;
  if (std::isfinite(range.below)) schema["exclusiveMaximum"] = range.below;
  if (std::isfinite(range.max)) schema["maximum"] = range.max;
  const double low = std::max(range.above, range.min), high = std::min(range.below, range.max);
  const std::string expected =
      WithBounds<double>("a number", low, std::isfinite(range.min), high, std::isfinite(range.max),
                         &FormatNumber, std::isfinite(low), std::isfinite(high));
  return PlainType<double>(
      expected, std::move(schema),
      [=](const std::string& text) -> std::optional<double> {
        const std::optional<double> value = ParseNumber(text);
        if (!value || *value <= range.above || *value < range.min || *value >= range.below ||
            *value > range.max) {
          return std::nullopt;
        }
        return value;
      },
      &FormatNumber);
}

Type<double> DurationType() {
  return PlainType<double>(
      "a duration such as 30m, 3h55m or 45s",
      Json{{"type", {"string", "number"}}, {"pattern", "^([0-9.]+(d|h|m|s|ms))+$"}, {"exclusiveMinimum", 0}},
      [](const std::string& text) -> std::optional<double> {
        const std::optional<double> seconds = ParseDuration(text);
        return seconds && *seconds > 0 ? seconds : std::nullopt;
      },
      &FormatDuration);
}

Type<int64_t> SizeType() {
  return PlainType<int64_t>(
      "a size such as 25MB, 16KiB or 4096",
      Json{{"type", {"string", "integer"}}, {"pattern", "^[0-9.]+ ?([kKmMgGtT]?i?[bB])?$"}, {"minimum", 1}},
      [](const std::string& text) -> std::optional<int64_t> {
        const std::optional<int64_t> bytes = ParseSize(text);
        return bytes && *bytes > 0 ? bytes : std::nullopt;
      },
      &FormatSize);
}

Type<CountOrShare> CountOrShareType() {
  return PlainType<CountOrShare>(
      "a share from 0 to below 1, or a whole number of samples",
      Json{{"anyOf",
            {Json{{"type", "number"}, {"minimum", 0}, {"exclusiveMaximum", 1}},
             Json{{"type", "integer"}, {"minimum", 1}}}}},
      [](const std::string& text) -> std::optional<CountOrShare> {
        if (const std::optional<int64_t> count = ParseInteger(text)) {
          return *count >= 0 ? std::optional(CountOrShare{.count = *count}) : std::nullopt;
        }
        const std::optional<double> share = ParseNumber(text);
        if (!share || *share < 0 || *share >= 1) return std::nullopt;
        return CountOrShare{.share = *share};
      },
      [](const CountOrShare& value) {
        return value.count > 0 ? StrCat(value.count) : FormatNumber(value.share);
      });
}

namespace {

bool IsIdentifier(std::string_view name) {
  const auto word = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), word);
}

// A node as YAML's core schema has it. Nothing where a key is repeated; then an error has been added.
std::optional<Json> ReadJson(const Node& node, const Where& where) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return Json();
    case Node::Kind::kScalar: {
      if (node.quoted) return Json(node.text);
      const std::string word = Lower(node.text);
      if (word == "true" || word == "false") return Json(word == "true");
      if (const auto whole = ParseInteger(node.text)) return Json(*whole);
      if (const auto number = ParseNumber(node.text)) return Json(*number);
      return Json(node.text);
    }
    case Node::Kind::kList: {
      Json list = Json::array();
      for (size_t i = 0; i < node.items.size(); ++i) {
        std::optional<Json> item = ReadJson(node.items[i], where.Sub(StrCat("[", i, "]")));
        if (!item) return std::nullopt;
        list.push_back(*std::move(item));
      }
      return list;
    }
    case Node::Kind::kMap: {
      Json map = Json::object();
      for (const Node::Entry& entry : node.entries) {
        const Where here = where.Sub("." + entry.key);
        if (map.contains(entry.key)) {
          here.Repeated(entry.line, 0, "keep one");
          return std::nullopt;
        }
        std::optional<Json> value = ReadJson(entry.value, here);
        if (!value) return std::nullopt;
        map[entry.key] = *std::move(value);
      }
      return map;
    }
  }
  return std::nullopt;
}

Node WriteJson(const Json& value) {
  if (value.is_null()) return Node();
  if (value.is_string()) return Node::Text(value.get<std::string>());
  if (value.is_array()) {
    std::vector<Node> items;
    for (const Json& item : value) items.push_back(WriteJson(item));
    return Node::List(std::move(items));
  }
  if (value.is_object()) {
    Node map = Node::Map();
    for (const auto& [key, item] : value.items()) map.At(key) = WriteJson(item);
    return map;
  }
  return Node::Plain(value.dump());
}

}  // namespace

Type<Json> VariablesType(std::function<bool(std::string_view)> reserved) {
  const std::string expected = "a map of names and values";
  return {expected, Json{{"type", "object"}},
          [=](const Node& node, const Where& where) -> std::optional<Json> {
            if (!node.is_map()) {
              where.Wrong(node, expected);
              return std::nullopt;
            }
            const size_t errors_before = where.errors->size();
            for (const Node::Entry& entry : node.entries) {
              const Where here = where.Sub("." + entry.key);
              if (!IsIdentifier(entry.key)) {
                here.Add(entry.line, {.message = "not a name that a template can use",
                                      .expected = "letters, digits and _, no digit first"});
              } else if (reserved(entry.key)) {
                here.Add(entry.line,
                         {.message = "each conversation sets this variable itself", .hint = "take it out"});
              }
            }
            std::optional<Json> value = ReadJson(node, where);
            return where.errors->size() == errors_before ? value : std::nullopt;
          },
          &WriteJson};
}

Type<TargetModules> TargetModulesType() {
  const std::string expected = "all-linear, a list of module names, or a regular expression";
  return {
      expected,
      Json{{"anyOf",
            {Json{{"type", "string"}, {"minLength", 1}},
             Json{{"type", "array"}, {"items", {{"type", "string"}, {"minLength", 1}}}, {"minItems", 1}}}}},
      [=](const Node& node, const Where& where) -> std::optional<TargetModules> {
        using Kind = TargetModules::Kind;
        if (node.is_list() && !node.items.empty()) {
          auto names = ListOf(TextType("a module name"), expected).read(node, where);
          if (!names) return std::nullopt;
          return TargetModules{.kind = Kind::kNames, .names = *std::move(names)};
        }
        if (!node.is_scalar() || node.text.empty()) {
          where.Wrong(node, expected);
          return std::nullopt;
        }
        if (node.text == "all-linear" || node.text == "all") return TargetModules{};
        // One bare name would be a regular expression that matches no whole name.
        if (auto names = CommaSeparatedNames(node.text)) {
          return TargetModules{.kind = Kind::kNames, .names = *std::move(names)};
        }
        return TargetModules{.kind = Kind::kRegex, .regex = node.text};
      },
      [](const TargetModules& modules) {
        using Kind = TargetModules::Kind;
        if (modules.kind == Kind::kAllLinear) return Node::Plain("all-linear");
        if (modules.kind == Kind::kRegex) return Node::Text(modules.regex);
        std::vector<Node> names;
        for (const std::string& name : modules.names) names.push_back(Node::Text(name));
        return Node::List(std::move(names));
      }};
}

Type<ActivationCheckpointing> ActivationCheckpointingType() {
  const std::string expected =
      "one of none, full, selective, or a whole number of 1 or more (every n-th block)";
  using Kind = ActivationCheckpointing::Kind;
  constexpr int64_t kMostBlocks = 1000000;
  return {expected,
          Json{{"anyOf",
                {Json{{"enum", {"none", "full", "selective", true, false}}},
                 Json{{"type", "integer"}, {"minimum", 1}, {"maximum", kMostBlocks}}}}},
          [=](const Node& node, const Where& where) -> std::optional<ActivationCheckpointing> {
            const std::string word = node.is_scalar() ? Lower(node.text) : "";
            // true and false: as gradient_checkpointing is given elsewhere
            if (node.is_null() || word == "none" || word == "false") return ActivationCheckpointing{};
            if (word == "full" || word == "true") return ActivationCheckpointing{.kind = Kind::kFull};
            if (word == "selective") return ActivationCheckpointing{.kind = Kind::kSelective};
            const std::optional<int64_t> nth = ParseInteger(word);
            if (!node.quoted && nth && *nth >= 1 && *nth <= kMostBlocks) {
              return ActivationCheckpointing{.kind = Kind::kEveryNth, .every_nth = *nth};
            }
            const auto near = Nearest(word, {"none", "full", "selective"});
            where.Wrong(node, expected, near ? StrCat("did you mean ", *near, "?") : "");
            return std::nullopt;
          },
          [](const ActivationCheckpointing& value) {
            switch (value.kind) {
              case Kind::kNone:
                return Node::Plain("none");
              case Kind::kFull:
                return Node::Plain("full");
              case Kind::kSelective:
                return Node::Plain("selective");
              case Kind::kEveryNth:
                return Node::Plain(StrCat(value.every_nth));
            }
            return Node();
          }};
}

Type<std::string> ScheduleType(std::vector<std::string> names) {
  const std::string expected = StrCat("one of ", StrJoin(names, ", "), ", or a .csv file");
  const auto known = [names](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  Type<std::string> type = {
      expected, Json{{"anyOf", {Json{{"enum", names}}, Json{{"type", "string"}, {"pattern", "\\.csv$"}}}}},
      [=](const Node& node, const Where& where) -> std::optional<std::string> {
        if (node.is_scalar()) {
          const std::string name = Lower(node.text);
          if (known(name)) return name;
          if (name.size() > 4 && name.ends_with(".csv")) return node.text;
        }
        const auto near = Nearest(node.text, names);
        where.Wrong(node, expected, near ? StrCat("did you mean ", *near, "?") : "");
        return std::nullopt;
      },
      [=](const std::string& name) { return known(name) ? Node::Plain(name) : Node::Text(name); }};
  return PathType(std::move(type), [known](const std::string& text) {
    return known(text) ? PathUse::kNone : PathUse::kInput;
  });
}

Type<size_t> ChoiceType(std::vector<ChoiceName> choices) {
  std::vector<std::string> names, accepted;
  for (const ChoiceName& choice : choices) {
    names.push_back(choice.name);
    accepted.push_back(choice.name);
    accepted.insert(accepted.end(), choice.others.begin(), choice.others.end());
  }
  const std::string expected = names.size() == 1 ? names[0] : StrCat("one of ", StrJoin(names, ", "));
  return {expected, Json{{"enum", accepted}},
          [=](const Node& node, const Where& where) -> std::optional<size_t> {
            const std::string word = node.is_null() ? "none" : node.is_scalar() ? Lower(node.text) : "";
            for (size_t i = 0; i < choices.size(); ++i) {
              const std::vector<std::string>& others = choices[i].others;
              if (word == choices[i].name || std::find(others.begin(), others.end(), word) != others.end())
                return i;
            }
            const auto near = Nearest(word, accepted);
            where.Wrong(node, expected, near ? StrCat("did you mean ", *near, "?") : "");
            return std::nullopt;
          },
          [=](size_t i) { return Node::Plain(names[i]); }};
}

std::vector<std::optional<size_t>> MatchFields(const Node& map, const std::vector<std::string>& names,
                                               const Where& where) {
  std::vector<std::optional<size_t>> match;
  std::vector<int> first_line(names.size(), -1);
  for (const Node::Entry& entry : map.entries) {
    match.emplace_back();
    const Where here = where.Sub(StrCat(".", entry.key));
    const size_t i = std::find(names.begin(), names.end(), entry.key) - names.begin();
    if (i == names.size()) {
      const auto near = Nearest(entry.key, names);
      here.Add(entry.line, {.message = "unknown key",
                            .expected = StrCat("one of ", StrJoin(names, ", ")),
                            .hint = near ? StrCat("did you mean ", *near, "?") : ""});
    } else if (first_line[i] >= 0) {
      here.Repeated(entry.line, first_line[i], "keep one");
    } else {
      first_line[i] = entry.line;
      match.back() = i;
    }
  }
  return match;
}

}  // namespace ftune
