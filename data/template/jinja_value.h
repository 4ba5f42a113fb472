// Values of the template language, with Python's meaning of truth, equality, order and type names.
//
// Lists, dicts and texts never change once made (the sandbox of transformers forbids it), so they are shared.
// Only namespaces change; those of a rendering are owned by its Interpreter, so that no cycle outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "data/template/jinja_budget.h"
#include "data/template/jinja_text.h"

namespace ftune::jinja {

struct List;
struct Dict;
struct Namespace;
struct Callable;
struct Loop;

// What a missing name, key or attribute evaluates to. Printing it gives nothing; most other uses are an error
// with this message.
struct Undefined {
  std::string message;
};
struct None {};

using TextPtr = std::shared_ptr<const Text>;
using ListPtr = std::shared_ptr<const List>;
using DictPtr = std::shared_ptr<const Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using CallablePtr = std::shared_ptr<const Callable>;
using LoopPtr = std::shared_ptr<Loop>;
using UndefinedPtr = std::shared_ptr<const Undefined>;

class Value {
 public:
  Value() : data_(None{}) {}
  Value(bool value) : data_(value) {}     // NOLINT: values convert like Python's
  Value(int64_t value) : data_(value) {}  // NOLINT
  Value(double value) : data_(value) {}   // NOLINT
  Value(Text text) : data_(std::make_shared<const Text>(std::move(text))) {}  // NOLINT
  Value(TextPtr text) : data_(std::move(text)) {}                             // NOLINT
  Value(ListPtr list) : data_(std::move(list)) {}                             // NOLINT
  Value(DictPtr dict) : data_(std::move(dict)) {}                             // NOLINT
  Value(NamespacePtr ns) : data_(std::move(ns)) {}                            // NOLINT
  Value(CallablePtr fn) : data_(std::move(fn)) {}                             // NOLINT
  Value(LoopPtr loop) : data_(std::move(loop)) {}                             // NOLINT
  Value(const char*) = delete;
  static Value String(std::string_view bytes) { return Value(Text(std::string(bytes))); }
  static Value MakeUndefined(std::string message);

  bool IsUndefined() const { return std::holds_alternative<UndefinedPtr>(data_); }
  bool IsNone() const { return std::holds_alternative<None>(data_); }
  bool IsBool() const { return std::holds_alternative<bool>(data_); }
  bool IsInt() const { return std::holds_alternative<int64_t>(data_); }  // not bool
  bool IsIntegral() const { return IsInt() || IsBool(); }                // as Python's isinstance(x, int)
  bool IsFloat() const { return std::holds_alternative<double>(data_); }
  bool IsNumber() const { return IsIntegral() || IsFloat(); }
  bool IsString() const { return std::holds_alternative<TextPtr>(data_); }
  bool IsList() const { return std::holds_alternative<ListPtr>(data_); }
  bool IsDict() const { return std::holds_alternative<DictPtr>(data_); }

  bool AsBool() const { return std::get<bool>(data_); }
  int64_t AsInt() const { return IsBool() ? int64_t{AsBool()} : std::get<int64_t>(data_); }
  double AsDouble() const { return IsFloat() ? std::get<double>(data_) : static_cast<double>(AsInt()); }
  const Text& AsText() const { return *std::get<TextPtr>(data_); }
  const std::string& AsBytes() const { return AsText().bytes(); }
  const List& AsList() const { return *std::get<ListPtr>(data_); }
  const Dict& AsDict() const { return *std::get<DictPtr>(data_); }
  const Undefined& AsUndefined() const { return *std::get<UndefinedPtr>(data_); }
  // Null where the value is of another type.
  Namespace* GetNamespace() const;
  const Callable* GetCallable() const;
  Loop* GetLoop() const;
  // The object's address, for identity; null for plain numbers and the like.
  const void* Identity() const;

 private:
  std::variant<None, bool, int64_t, double, TextPtr, ListPtr, DictPtr, NamespacePtr, CallablePtr, LoopPtr,
               UndefinedPtr>
      data_;
};

// Python has many kinds of sequences that templates tell apart by truth, length, indexing and printing.
enum class ListKind : uint8_t { kList, kTuple, kRange, kGenerator, kKeys, kValues, kItems };

struct List {
  List(ListKind kind_in, std::vector<Value> items_in);
  ListKind kind;
  std::vector<Value> items;
  int depth;                    // nesting, this level included
  mutable size_t consumed = 0;  // generators yield each item once: those before this index are gone
  Tag tag;                      // of lists inside a message: which one

  bool Indexable() const {
    return kind == ListKind::kList || kind == ListKind::kTuple || kind == ListKind::kRange;
  }
  bool Reversible() const { return kind != ListKind::kGenerator; }
};

struct Dict {
  explicit Dict(std::vector<std::pair<Value, Value>> entries_in);
  std::vector<std::pair<Value, Value>> entries;  // in order of insertion, keys unique
  int depth;
  int32_t message = -1;  // this dict is messages[message] of the conversation
  Tag tag;               // of dicts inside a message: which one

  const Value* Find(std::string_view key) const;
  const Value* Find(const Value& key, Budget& budget) const;
};

struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);
};

class Interpreter;

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Callable {
  std::string name;
  std::function<Value(Interpreter&, Args&)> call;
};

// The variable `loop` inside a {% for %}.
struct Loop {
  std::vector<Value> items;
  int64_t index0 = 0;
  int64_t depth0 = 0;
  bool has_changed_value = false;
  std::vector<Value> changed;  // the arguments of the last loop.changed(…)
  std::function<Value(Interpreter&, const Value&)>
      recurse;  // loop(children); empty unless the loop is recursive
};

Value MakeList(ListKind kind, std::vector<Value> items);
Value MakeDict(std::vector<std::pair<Value, Value>> entries);

// "str", "dict", … as Python's messages name types.
std::string TypeName(const Value& value);

bool IsTrue(const Value& value);
bool Equals(const Value& a, const Value& b, Budget& budget);
// Python's <; an error where the types have no order.
bool Less(const Value& a, const Value& b, Budget& budget);
// `needle in haystack`.
bool Contains(const Value& haystack, const Value& needle, Budget& budget);
// What a for loop over the value yields; consumes a generator. An error for what Python cannot iterate.
std::vector<Value> Iterate(const Value& value, Budget& budget);
// len(value), or -1 where Python has none.
int64_t Length(const Value& value);

}  // namespace ftune::jinja
