#include "data/template/jinja_value.h"

#include <algorithm>
#include <cmath>

#include "base/strings.h"
#include "data/template/jinja_unicode.h"

namespace ftune::jinja {
namespace {

int DepthOf(const Value& value) {
  if (value.IsList()) return value.AsList().depth;
  if (value.IsDict()) return value.AsDict().depth;
  if (const Loop* loop = value.GetLoop()) {
    int depth = 0;
    for (const Value& item : loop->items) depth = std::max(depth, DepthOf(item));
    return depth + 1;
  }
  return 0;
}

void CheckDepth(int depth) {
  if (depth > Budget::kMaxValueDepth) throw Error("lists and dicts are nested more than 200 deep");
}

bool NumbersEqual(const Value& a, const Value& b) {
  if (a.IsIntegral() && b.IsIntegral()) return a.AsInt() == b.AsInt();
  return a.AsDouble() == b.AsDouble();
}

bool TextsEqual(const std::string& a, const std::string& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  budget.Read(a.size());
  return a == b;
}

bool ListsEqual(const List& a, const List& b, Budget& budget) {
  if (&a == &b) return true;
  const bool comparable = a.kind == b.kind && a.kind != ListKind::kGenerator && a.kind != ListKind::kValues;
  if (!comparable || a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!Equals(a.items[i], b.items[i], budget)) return false;
  }
  return true;
}

bool DictsEqual(const Dict& a, const Dict& b, Budget& budget) {
  if (&a == &b) return true;
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.Find(key, budget);
    if (other == nullptr || !Equals(value, *other, budget)) return false;
  }
  return true;
}

[[noreturn]] void ThrowUndefined(const Value& value) { throw Error(value.AsUndefined().message); }

}  // namespace

Value Value::MakeUndefined(std::string message) {
  Value value;
  value.data_ = std::make_shared<const Undefined>(Undefined{std::move(message)});
  return value;
}

Namespace* Value::GetNamespace() const {
  const auto* ns = std::get_if<NamespacePtr>(&data_);
  return ns == nullptr ? nullptr : ns->get();
}

const Callable* Value::GetCallable() const {
  const auto* callable = std::get_if<CallablePtr>(&data_);
  return callable == nullptr ? nullptr : callable->get();
}

Loop* Value::GetLoop() const {
  const auto* loop = std::get_if<LoopPtr>(&data_);
  return loop == nullptr ? nullptr : loop->get();
}

const void* Value::Identity() const {
  return std::visit(
      [](const auto& held) -> const void* {
        if constexpr (requires { held.get(); }) {
          return held.get();
        } else {
          return nullptr;
        }
      },
      data_);
}

List::List(ListKind kind_in, std::vector<Value> items_in)
    : kind(kind_in), items(std::move(items_in)), depth(1) {
  Budget::CheckItems(static_cast<int64_t>(items.size()));
  for (const Value& item : items) depth = std::max(depth, DepthOf(item) + 1);
  CheckDepth(depth);
}

Dict::Dict(std::vector<std::pair<Value, Value>> entries_in) : entries(std::move(entries_in)), depth(1) {
  Budget::CheckItems(static_cast<int64_t>(entries.size()));
  for (const auto& [key, value] : entries) depth = std::max({depth, DepthOf(key) + 1, DepthOf(value) + 1});
  CheckDepth(depth);
}

const Value* Dict::Find(std::string_view key) const {
  for (const auto& [k, value] : entries) {
    if (k.IsString() && k.AsBytes() == key) return &value;
  }
  return nullptr;
}

const Value* Dict::Find(const Value& key, Budget& budget) const {
  budget.Step(static_cast<int64_t>(entries.size() / 16));
  for (const auto& [k, value] : entries) {
    if (key.IsString()) {
      if (k.IsString() && TextsEqual(k.AsBytes(), key.AsBytes(), budget)) return &value;
      continue;
    }
    if (Equals(k, key, budget)) return &value;
  }
  return nullptr;
}

const Value* Namespace::Find(std::string_view name) const {
  for (const auto& [key, value] : attributes) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Namespace::Set(std::string_view name, Value value) {
  for (auto& [key, held] : attributes) {
    if (key == name) {
      held = std::move(value);
      return;
    }
  }
  attributes.emplace_back(std::string(name), std::move(value));
}

Value MakeList(ListKind kind, std::vector<Value> items) {
  return Value(std::make_shared<const List>(kind, std::move(items)));
}

Value MakeDict(std::vector<std::pair<Value, Value>> entries) {
  return Value(std::make_shared<const Dict>(std::move(entries)));
}

std::string TypeName(const Value& value) {
  if (value.IsUndefined()) return "Undefined";
  if (value.IsNone()) return "NoneType";
  if (value.IsBool()) return "bool";
  if (value.IsInt()) return "int";
  if (value.IsFloat()) return "float";
  if (value.IsString()) return value.AsText().markup ? "Markup" : "str";
  if (value.IsDict()) return "dict";
  if (value.GetNamespace() != nullptr) return "Namespace";
  if (value.GetLoop() != nullptr) return "LoopContext";
  if (value.GetCallable() != nullptr) return "function";
  switch (value.AsList().kind) {
    case ListKind::kList:
      return "list";
    case ListKind::kTuple:
      return "tuple";
    case ListKind::kRange:
      return "range";
    case ListKind::kGenerator:
      return "generator";
    case ListKind::kKeys:
      return "dict_keys";
    case ListKind::kValues:
      return "dict_values";
    case ListKind::kItems:
      return "dict_items";
  }
  return "object";
}

bool IsTrue(const Value& value) {
  if (value.IsUndefined() || value.IsNone()) return false;
  if (value.IsBool()) return value.AsBool();
  if (value.IsInt()) return value.AsInt() != 0;
  if (value.IsFloat()) return value.AsDouble() != 0;
  if (value.IsString()) return !value.AsText().empty();
  if (value.IsList()) return value.AsList().kind == ListKind::kGenerator || !value.AsList().items.empty();
  if (value.IsDict()) return !value.AsDict().entries.empty();
  return true;
}

bool Equals(const Value& a, const Value& b, Budget& budget) {
  budget.Step();
  if (a.IsUndefined() || b.IsUndefined()) return a.IsUndefined() && b.IsUndefined();
  if (a.IsNone() || b.IsNone()) return a.IsNone() && b.IsNone();
  if (a.IsNumber() && b.IsNumber()) return NumbersEqual(a, b);
  if (a.IsString() && b.IsString()) return TextsEqual(a.AsBytes(), b.AsBytes(), budget);
  if (a.IsList() && b.IsList()) return ListsEqual(a.AsList(), b.AsList(), budget);
  if (a.IsDict() && b.IsDict()) return DictsEqual(a.AsDict(), b.AsDict(), budget);
  return a.Identity() != nullptr && a.Identity() == b.Identity();
}

bool Less(const Value& a, const Value& b, Budget& budget) {
  budget.Step();
  if (a.IsUndefined()) ThrowUndefined(a);
  if (b.IsUndefined()) ThrowUndefined(b);
  if (a.IsIntegral() && b.IsIntegral()) return a.AsInt() < b.AsInt();
  if (a.IsNumber() && b.IsNumber()) return a.AsDouble() < b.AsDouble();
  if (a.IsString() && b.IsString()) {
    budget.Read(std::min(a.AsBytes().size(), b.AsBytes().size()));
    return a.AsBytes() < b.AsBytes();  // UTF-8 sorts as its code points do
  }
  if (a.IsList() && b.IsList() && a.AsList().kind == b.AsList().kind &&
      (a.AsList().kind == ListKind::kList || a.AsList().kind == ListKind::kTuple)) {
    const auto& x = a.AsList().items;
    const auto& y = b.AsList().items;
    for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
      if (!Equals(x[i], y[i], budget)) return Less(x[i], y[i], budget);
    }
    return x.size() < y.size();
  }
  throw Error(StrCat("'<' not supported between instances of '", TypeName(a), "' and '", TypeName(b), "'"));
}

bool Contains(const Value& haystack, const Value& needle, Budget& budget) {
  budget.Step();
  if (haystack.IsString()) {
    if (!needle.IsString()) {
      throw Error(StrCat("'in <string>' requires string as left operand, not ", TypeName(needle)));
    }
    budget.Read(haystack.AsBytes().size());
    return FindText(haystack.AsBytes(), needle.AsBytes()) != std::string::npos;
  }
  if (haystack.IsDict()) return haystack.AsDict().Find(needle, budget) != nullptr;
  if (haystack.IsUndefined()) return false;
  if (!haystack.IsList()) throw Error(StrCat("argument of type '", TypeName(haystack), "' is not iterable"));
  const List& list = haystack.AsList();
  for (size_t i = list.consumed; i < list.items.size(); ++i) {
    if (list.kind == ListKind::kGenerator) list.consumed = i + 1;
    if (Equals(list.items[i], needle, budget)) return true;
  }
  return false;
}

std::vector<Value> Iterate(const Value& value, Budget& budget) {
  std::vector<Value> out;
  if (value.IsUndefined()) return out;
  if (value.IsList()) {
    const List& list = value.AsList();
    out.assign(list.items.begin() + list.consumed, list.items.end());
    if (list.kind == ListKind::kGenerator) list.consumed = list.items.size();
  } else if (value.IsDict()) {
    for (const auto& entry : value.AsDict().entries) out.push_back(entry.first);
  } else if (value.IsString()) {
    const Text& text = value.AsText();
    budget.Read(text.size());
    Budget::CheckItems(Length(value));
    char32_t c;
    for (size_t pos = 0; pos < text.size();) {
      const size_t next = NextCodePoint(text.bytes(), pos, &c);
      out.push_back(Value(text.Range(pos, next)));
      pos = next;
    }
    budget.Allocate(static_cast<int64_t>(out.size()) * 128);
  } else {
    throw Error(StrCat("'", TypeName(value), "' object is not iterable"));
  }
  budget.Step(static_cast<int64_t>(out.size()));
  budget.Allocate(static_cast<int64_t>(out.size()) * 32);
  return out;
}

int64_t Length(const Value& value) {
  if (value.IsUndefined()) return 0;
  if (value.IsString()) return static_cast<int64_t>(CountCodePoints(value.AsBytes()));
  if (value.IsDict()) return static_cast<int64_t>(value.AsDict().entries.size());
  if (value.IsList() && value.AsList().kind != ListKind::kGenerator) {
    return static_cast<int64_t>(value.AsList().items.size());
  }
  if (const Loop* loop = value.GetLoop()) return static_cast<int64_t>(loop->items.size());
  return -1;
}

}  // namespace ftune::jinja
