// Attributes, items and slices, by the rules of Jinja's sandbox.
#include <algorithm>

#include "base/strings.h"
#include "data/template/jinja_builtins.h"
#include "data/template/jinja_format.h"
#include "data/template/jinja_interpreter.h"
#include "data/template/jinja_unicode.h"

namespace ftune::jinja {
namespace {

// "'x' is undefined", with what x was looked up in.
Value Missing(const Value& object, const Value& key, Budget& budget) {
  const std::string owner = object.IsNone() ? "None" : TypeName(object) + " object";
  if (key.IsString())
    return Value::MakeUndefined(StrCat("'", owner, "' has no attribute '", key.AsBytes(), "'"));
  return Value::MakeUndefined(StrCat(owner, " has no element ", Repr(key, budget)));
}

Value LoopFunction(const char* name, std::function<Value(Interpreter&, Args&)> function) {
  return Value(std::make_shared<const Callable>(Callable{name, std::move(function)}));
}

std::optional<Value> LoopAttribute(const Value& value, std::string_view name) {
  const Loop& loop = *value.GetLoop();
  const int64_t length = static_cast<int64_t>(loop.items.size());
  if (name == "index") return Value(loop.index0 + 1);
  if (name == "index0") return Value(loop.index0);
  if (name == "revindex") return Value(length - loop.index0);
  if (name == "revindex0") return Value(length - loop.index0 - 1);
  if (name == "first") return Value(loop.index0 == 0);
  if (name == "last") return Value(loop.index0 == length - 1);
  if (name == "length") return Value(length);
  if (name == "depth") return Value(loop.depth0 + 1);
  if (name == "depth0") return Value(loop.depth0);
  if (name == "previtem") {
    if (loop.index0 == 0) return Value::MakeUndefined("there is no previous item");
    return loop.items[loop.index0 - 1];
  }
  if (name == "nextitem") {
    if (loop.index0 + 1 >= length) return Value::MakeUndefined("there is no next item");
    return loop.items[loop.index0 + 1];
  }
  if (name == "cycle") {
    return LoopFunction("cycle", [index = loop.index0](Interpreter&, Args& args) {
      if (args.positional.empty()) throw Error("no items for cycling given");
      return args.positional[index % args.positional.size()];
    });
  }
  if (name == "changed") {
    return LoopFunction("changed", [value](Interpreter& in, Args& args) {
      Loop& loop = *value.GetLoop();
      const bool same =
          loop.has_changed_value &&
          std::equal(loop.changed.begin(), loop.changed.end(), args.positional.begin(), args.positional.end(),
                     [&](const Value& a, const Value& b) { return Equals(a, b, in.budget()); });
      loop.changed = args.positional;
      loop.has_changed_value = true;
      return Value(!same);
    });
  }
  return std::nullopt;
}

// What Python's getattr(object, name) finds.
std::optional<Value> PythonAttribute(const Value& object, std::string_view name) {
  if (const Namespace* ns = object.GetNamespace()) {
    const Value* value = ns->Find(name);
    return value == nullptr ? std::nullopt : std::optional<Value>(*value);
  }
  if (object.GetLoop() != nullptr) return LoopAttribute(object, name);
  if (const Callable* callable = object.GetCallable()) {
    if (name == "name") return Value::String(callable->name);
    return std::nullopt;
  }
  return FindMethod(object, name);
}

// What object[key] finds without attributes.
std::optional<Value> PythonItem(const Value& object, const Value& key, Budget& budget) {
  if (object.IsDict()) {
    const Value* value = object.AsDict().Find(key, budget);
    return value == nullptr ? std::nullopt : std::optional<Value>(*value);
  }
  if (!key.IsIntegral()) return std::nullopt;
  const bool indexable = object.IsString() || (object.IsList() && object.AsList().Indexable());
  if (!indexable) return std::nullopt;
  if (object.IsString()) budget.Read(object.AsBytes().size());
  const int64_t length = Length(object);
  const int64_t index = key.AsInt() < 0 ? key.AsInt() + length : key.AsInt();
  if (index < 0 || index >= length) return std::nullopt;
  if (object.IsList()) return object.AsList().items[index];
  const Text& text = object.AsText();
  const size_t begin = OffsetOfCodePoint(text.bytes(), index);
  char32_t c;
  return Value(text.Range(begin, NextCodePoint(text.bytes(), begin, &c)));
}

struct SliceBounds {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t step = 1;
};

// slice(begin, end, step).indices(length) of Python.
SliceBounds ResolveSlice(const Value& begin, const Value& end, const Value& step, int64_t length) {
  const auto whole = [](const Value& value) {
    if (!value.IsIntegral()) throw Error("slice indices must be integers or None");
    return value.AsInt();
  };
  SliceBounds bounds;
  if (!step.IsNone()) bounds.step = whole(step);
  if (bounds.step == 0) throw Error("slice step cannot be zero");
  const bool backwards = bounds.step < 0;
  const int64_t lowest = backwards ? -1 : 0;
  const int64_t highest = backwards ? length - 1 : length;
  const auto clamp = [&](int64_t index) {
    if (index < 0) index = std::max(index, -length - 1) + length;
    return std::clamp(index, lowest, std::max(lowest, highest));
  };
  bounds.begin = begin.IsNone() ? (backwards ? highest : 0) : clamp(whole(begin));
  bounds.end = end.IsNone() ? (backwards ? -1 : length) : clamp(whole(end));
  return bounds;
}

// The indices a slice selects, in order.
std::vector<int64_t> SelectedIndices(const SliceBounds& bounds) {
  std::vector<int64_t> indices;
  for (int64_t i = bounds.begin; bounds.step > 0 ? i < bounds.end : i > bounds.end;) {
    indices.push_back(i);
    if (__builtin_add_overflow(i, bounds.step, &i)) break;
  }
  return indices;
}

Text SliceText(const Text& text, const SliceBounds& bounds, Budget& budget) {
  const std::string& bytes = text.bytes();
  if (bounds.step == 1) {
    if (bounds.begin >= bounds.end) return Text();
    const size_t begin = OffsetOfCodePoint(bytes, bounds.begin);
    const size_t length = OffsetOfCodePoint(std::string_view(bytes).substr(begin), bounds.end - bounds.begin);
    return text.Range(begin, begin + length);
  }
  Budget::CheckItems(static_cast<int64_t>(CountCodePoints(bytes)));
  std::vector<size_t> offsets;
  char32_t c;
  for (size_t pos = 0; pos < bytes.size(); pos = NextCodePoint(bytes, pos, &c)) offsets.push_back(pos);
  offsets.push_back(bytes.size());
  Text out;
  for (int64_t i : SelectedIndices(bounds)) out.AppendRange(text, offsets[i], offsets[i + 1]);
  return out;
}

}  // namespace

Value Interpreter::GetAttribute(const Value& object, std::string_view name) {
  if (object.IsUndefined()) throw Error(object.AsUndefined().message);
  const Value key = Value::String(name);
  if (name.starts_with("_") && !object.IsDict()) {
    return Value::MakeUndefined(
        StrCat("access to attribute '", name, "' of '", TypeName(object), "' object is unsafe."));
  }
  if (std::optional<Value> found = PythonAttribute(object, name)) return *std::move(found);
  if (std::optional<Value> found = PythonItem(object, key, budget_)) return *std::move(found);
  return Missing(object, key, budget_);
}

Value Interpreter::GetItem(const Value& object, const Value& key) {
  if (object.IsUndefined()) throw Error(object.AsUndefined().message);
  if (std::optional<Value> found = PythonItem(object, key, budget_)) return *std::move(found);
  if (key.IsString()) {
    if (std::optional<Value> found = PythonAttribute(object, key.AsBytes())) return *std::move(found);
  }
  return Missing(object, key, budget_);
}

Value Interpreter::EvaluateSlice(const Value& object, const Expr& slice, const ScopePtr& scope) {
  Value bounds[3];
  for (int i = 0; i < 3; ++i) {
    if (slice.operands[i] != nullptr) bounds[i] = Evaluate(*slice.operands[i], scope);
  }
  line_ = slice.line;
  if (object.IsUndefined()) throw Error(object.AsUndefined().message);
  const bool sliceable = object.IsString() || (object.IsList() && object.AsList().Indexable());
  if (!sliceable) throw Error(StrCat("'", TypeName(object), "' object cannot be sliced"));
  if (object.IsString()) budget_.Read(object.AsBytes().size());
  const SliceBounds resolved = ResolveSlice(bounds[0], bounds[1], bounds[2], Length(object));
  if (object.IsString()) return Make(SliceText(object.AsText(), resolved, budget_));
  const List& list = object.AsList();
  std::vector<Value> items;
  for (int64_t i : SelectedIndices(resolved)) items.push_back(list.items[i]);
  budget_.Step(static_cast<int64_t>(items.size()));
  budget_.Allocate(static_cast<int64_t>(items.size()) * 32);
  auto out = std::make_shared<List>(list.kind, std::move(items));
  out->tag = list.tag;
  return Value(ListPtr(std::move(out)));
}

}  // namespace ftune::jinja
