// The types of recipe values: each reads a YAML node into a C++ value, writes it back, and describes itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cmd/recipe/node.h"
#include "cmd/recipe/recipe.h"

namespace ftune {

using Json = nlohmann::ordered_json;

// More than any machine has; a product of the mesh beyond it is a mistake.
inline constexpr int64_t kMostRanks = 1000000;

// The value that is being read, as errors name it, and where they go.
struct Where {
  std::string file;
  std::string key;
  std::vector<ErrorDetail>* errors;

  Where Sub(std::string_view part) const { return {file, key + std::string(part), errors}; }
  void Add(int line, ErrorDetail detail) const;  // completes file, line and key
  // "found X, expected Y; hint"
  void Wrong(const Node& found, std::string expected, std::string hint = "") const;
  // A second value for a key, on `line`. `how` says how to mend it.
  void Repeated(int line, int first_line, std::string how) const;
};

// A node as an error shows it, shortened.
std::string DescribeNode(const Node& node);

// A field of a record, for the reference.
struct FieldDoc {
  std::string name;
  std::string expected;
  std::string default_value;  // empty: it must be given
  std::string doc;
};

// What a text of a recipe names on this disk, if anything.
enum class PathUse {
  kInput,   // a file or folder that is read
  kOutput,  // one that is made where there is none
  kNone,    // a name, an id of the hub, standard input, a text
};
// Called with each text that may be a path; it may change it.
using PathVisitor = std::function<void(std::string& path, PathUse use)>;

template <class T>
struct Type {
  std::string expected;  // what completes "expected …"
  Json schema;           // JSON Schema of the value
  // Nothing where the node is wrong; then at least one error has been added.
  std::function<std::optional<T>(const Node&, const Where&)> read;
  std::function<Node(const T&)> write;
  std::vector<FieldDoc> fields = {};  // of the record in it, if there is one
  // Visits the paths in a value; null where the type has none.
  std::function<void(T&, const PathVisitor&)> paths = {};
};

struct Range {
  double above = -std::numeric_limits<double>::infinity();  // exclusive
  double min = -std::numeric_limits<double>::infinity();
  double below = std::numeric_limits<double>::infinity();  // exclusive
  double max = std::numeric_limits<double>::infinity();
};

// `expected` names the kind of text: "a path". Empty text is refused.
Type<std::string> TextType(std::string expected);
// A text of `type` that may be a path: `use` tells what it is.
Type<std::string> PathType(Type<std::string> type, std::function<PathUse(const std::string&)> use);
Type<bool> BoolType();
Type<int64_t> IntType(int64_t min, int64_t max = std::numeric_limits<int64_t>::max());
Type<double> NumberType(Range range);
Type<double> DurationType();  // seconds, above 0
Type<int64_t> SizeType();     // bytes, above 0
Type<CountOrShare> CountOrShareType();
// A map of variables for a chat template: names, which `reserved` gives none of, and any YAML values.
Type<Json> VariablesType(std::function<bool(std::string_view)> reserved);
Type<TargetModules> TargetModulesType();
Type<ActivationCheckpointing> ActivationCheckpointingType();
Type<std::string> ScheduleType(std::vector<std::string> names);  // one of them, or a .csv file

// For OneOf: `name` as written; further names are accepted.
struct ChoiceName {
  std::string name;
  std::vector<std::string> others = {};
};
// The index into `choices` of what a node names; `null` counts as the choice "none" where there is one.
Type<size_t> ChoiceType(std::vector<ChoiceName> choices);

template <class E>
Type<E> OneOf(std::vector<std::pair<ChoiceName, E>> choices) {
  std::vector<ChoiceName> names;
  std::vector<E> values;
  for (const auto& [name, value] : choices) {
    names.push_back(name);
    values.push_back(value);
  }
  Type<size_t> index = ChoiceType(std::move(names));
  return {index.expected, index.schema,
          [index, values](const Node& node, const Where& where) -> std::optional<E> {
            const std::optional<size_t> i = index.read(node, where);
            return i ? std::optional(values[*i]) : std::nullopt;
          },
          [index, values](const E& value) {
            size_t i = 0;
            while (values[i] != value) ++i;
            return index.write(i);
          }};
}

// One word that stands for "no value", or a value. The word null is YAML's null.
template <class T>
Type<std::optional<T>> WordOr(const std::string& word, Type<T> type) {
  const bool null = word == "null";
  const std::string expected =
      word + (type.expected.starts_with("one of ") ? ", or " : " or ") + type.expected;
  const Json word_schema = null ? Json{{"type", "null"}} : Json{{"const", word}};
  std::function<void(std::optional<T>&, const PathVisitor&)> paths;
  if (type.paths) {
    paths = [visit_paths = type.paths](std::optional<T>& value, const PathVisitor& visit) {
      if (value) visit_paths(*value, visit);
    };
  }
  return {expected,
          Json{{"anyOf", {word_schema, type.schema}}},
          [=](const Node& node, const Where& where) -> std::optional<std::optional<T>> {
            std::optional<std::optional<T>> result;
            if (null ? node.is_null() : node.is_scalar() && node.text == word) {
              result.emplace();
              return result;
            }
            const size_t errors_before = where.errors->size();
            std::optional<T> value = type.read(node, where);
            if (value) {
              result.emplace(*std::move(value));
              return result;
            }
            // What was expected is either of the two, unless the error is in a part of the value.
            for (size_t i = errors_before; i < where.errors->size(); ++i) {
              ErrorDetail& error = (*where.errors)[i];
              if (error.key == where.key && error.expected == type.expected) error.expected = expected;
            }
            return result;
          },
          [=](const std::optional<T>& value) {
            if (value) return type.write(*value);
            return null ? Node() : Node::Plain(word);
          },
          type.fields,
          std::move(paths)};
}
template <class T>
Type<Auto<T>> AutoOr(Type<T> type) {
  return WordOr("auto", std::move(type));
}
template <class T>
Type<std::optional<T>> NullOr(Type<T> type) {
  return WordOr("null", std::move(type));
}

struct ListShape {
  bool one_is_enough = false;  // a value alone is a list of it
  size_t min_items = 0;
};

// A list; `expected` names it: "a list of host names".
template <class T>
Type<std::vector<T>> ListOf(Type<T> type, std::string expected, ListShape shape = {}) {
  Json schema = {{"type", "array"}, {"items", type.schema}};
  if (shape.min_items > 0) schema["minItems"] = shape.min_items;
  if (shape.one_is_enough) schema = Json{{"anyOf", {schema, type.schema}}};
  std::function<void(std::vector<T>&, const PathVisitor&)> paths;
  if (type.paths) {
    paths = [visit_paths = type.paths](std::vector<T>& values, const PathVisitor& visit) {
      for (T& value : values) visit_paths(value, visit);
    };
  }
  return {expected,
          schema,
          [=](const Node& node, const Where& where) -> std::optional<std::vector<T>> {
            if (shape.one_is_enough && (node.is_scalar() || node.is_map())) {
              std::optional<T> only = type.read(node, where);
              if (!only) return std::nullopt;
              return std::vector<T>{*std::move(only)};
            }
            if (!node.is_list() || node.items.size() < shape.min_items) {
              where.Wrong(node, expected, node.is_scalar() ? "put it in brackets: [" + node.text + "]" : "");
              return std::nullopt;
            }
            std::vector<T> values;
            for (size_t i = 0; i < node.items.size(); ++i) {
              std::optional<T> value = type.read(node.items[i], where.Sub("[" + std::to_string(i) + "]"));
              if (value) values.push_back(*std::move(value));
            }
            return values.size() == node.items.size() ? std::optional(std::move(values)) : std::nullopt;
          },
          [=](const std::vector<T>& values) {
            std::vector<Node> items;
            for (const T& value : values) items.push_back(type.write(value));
            return Node::List(std::move(items));
          },
          type.fields,
          std::move(paths)};
}

// A map of names that are the user's own; `expected` describes it. The order is kept.
template <class T>
Type<std::vector<std::pair<std::string, T>>> MapOf(Type<T> type, std::string expected) {
  using Map = std::vector<std::pair<std::string, T>>;
  return {expected, Json{{"type", "object"}, {"additionalProperties", type.schema}},
          [=](const Node& node, const Where& where) -> std::optional<Map> {
            if (!node.is_map()) {
              where.Wrong(node, expected);
              return std::nullopt;
            }
            const size_t errors_before = where.errors->size();
            Map values;
            for (const Node::Entry& entry : node.entries) {
              const Where here = where.Sub("." + entry.key);
              const auto same = [&](const Node::Entry& other) { return other.key == entry.key; };
              const auto first = std::find_if(node.entries.begin(), node.entries.end(), same);
              if (&*first != &entry) here.Repeated(entry.line, first->line, "keep one");
              std::optional<T> value = type.read(entry.value, here);
              if (value) values.emplace_back(entry.key, *std::move(value));
            }
            return where.errors->size() == errors_before ? std::optional(std::move(values)) : std::nullopt;
          },
          [=](const Map& values) {
            Node map = Node::Map();
            for (const auto& [name, value] : values) map.At(name) = type.write(value);
            return map;
          }};
}

// Whether a run that goes on may have another value than it had.
enum class OnResume {
  kFree,   // how fast, how long, where and with what beside it is trained
  kFixed,  // what its checkpoints and the order of its data depend on
};

// A member of a struct under its name in YAML.
template <class S>
struct Field {
  std::string name;
  std::vector<std::string> aliases;
  std::string doc;
  std::string expected;
  Json schema;
  std::vector<FieldDoc> fields;
  std::function<bool(const Node&, const Where&, S&)> read;  // false: errors have been added
  std::function<Node(const S&)> write;
  std::optional<OnResume> on_resume = {};                  // empty: as its section
  std::function<void(S&, const PathVisitor&)> paths = {};  // as in Type

  Field Resumed(OnResume value) && {
    on_resume = value;
    return std::move(*this);
  }
};

template <class S, class T>
Field<S> MakeField(std::string name, T S::*member, Type<T> type, std::string doc,
                   std::vector<std::string> aliases = {}) {
  std::function<void(S&, const PathVisitor&)> paths;
  if (type.paths) {
    paths = [=](S& object, const PathVisitor& visit) { type.paths(object.*member, visit); };
  }
  return {std::move(name),
          std::move(aliases),
          std::move(doc),
          type.expected,
          type.schema,
          type.fields,
          [=](const Node& node, const Where& where, S& object) {
            std::optional<T> value = type.read(node, where);
            if (value) object.*member = *std::move(value);
            return value.has_value();
          },
          [=](const S& object) { return type.write(object.*member); },
          std::nullopt,
          std::move(paths)};
}

// Checks a map's keys for RecordOf: adds an error for each that is unknown or repeated. Gives, per entry of
// the map, the index into `names`, or nothing.
std::vector<std::optional<size_t>> MatchFields(const Node& map, const std::vector<std::string>& names,
                                               const Where& where);

// A map with the given fields; text alone gives the first field, which must always be given.
template <class S>
Type<S> RecordOf(std::vector<Field<S>> fields, std::string expected) {
  std::vector<std::string> names;
  std::vector<FieldDoc> docs;
  Json properties = Json::object();
  for (const Field<S>& field : fields) {
    const bool required = names.empty();
    names.push_back(field.name);
    docs.push_back({field.name, field.expected, required ? "" : WriteFlow(field.write(S())), field.doc});
    properties[field.name] = field.schema;
    properties[field.name]["description"] = field.doc;
  }
  const Json map_schema = {{"type", "object"},
                           {"properties", properties},
                           {"required", {names.front()}},
                           {"additionalProperties", false}};
  std::function<void(S&, const PathVisitor&)> paths;
  if (std::any_of(fields.begin(), fields.end(),
                  [](const Field<S>& field) { return field.paths != nullptr; })) {
    paths = [fields](S& object, const PathVisitor& visit) {
      for (const Field<S>& field : fields) {
        if (field.paths) field.paths(object, visit);
      }
    };
  }
  return {expected,
          Json{{"anyOf", {fields.front().schema, map_schema}}},
          [=](const Node& node, const Where& where) -> std::optional<S> {
            S object;
            if (node.is_scalar()) {
              return fields.front().read(node, where, object) ? std::optional(std::move(object))
                                                              : std::nullopt;
            }
            if (!node.is_map()) {
              where.Wrong(node, expected);
              return std::nullopt;
            }
            const size_t errors_before = where.errors->size();
            const std::vector<std::optional<size_t>> match = MatchFields(node, names, where);
            bool complete = false;
            for (size_t i = 0; i < match.size(); ++i) {
              if (!match[i]) continue;
              complete = complete || *match[i] == 0;
              fields[*match[i]].read(node.entries[i].value, where.Sub("." + names[*match[i]]), object);
            }
            if (!complete) where.Add(node.line, {.message = "has no " + names.front(), .expected = expected});
            return where.errors->size() == errors_before ? std::optional(std::move(object)) : std::nullopt;
          },
          [=](const S& object) {
            Node map = Node::Map();
            for (const Field<S>& field : fields) map.At(field.name) = field.write(object);
            return map;
          },
          std::move(docs),
          std::move(paths)};
}

}  // namespace ftune
