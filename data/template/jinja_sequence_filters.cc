// Filters over lists and dicts, after jinja2/filters.py. Those that are generators in Python give generators:
// always true, without a length, gone once read.
#include <algorithm>
#include <charconv>
#include <utility>

#include "base/strings.h"
#include "data/template/jinja_args.h"
#include "data/template/jinja_builtins.h"
#include "data/template/jinja_format.h"
#include "data/template/jinja_operators.h"
#include "data/template/jinja_strings.h"
#include "data/template/jinja_unicode.h"

namespace ftune::jinja {
namespace {

Value MakeGenerator(std::vector<Value> items) { return MakeList(ListKind::kGenerator, std::move(items)); }

Value LowerCased(Interpreter& in, const Value& value) {
  return value.IsString() ? in.Make(MapBytes(value.AsText(), ToLower)) : value;
}

// "a.b.0": the keys to follow from an item. A whole number is one key; nothing leads to the item itself.
class AttributePath {
 public:
  explicit AttributePath(const Value* attribute) {
    if (attribute == nullptr) return;
    if (!attribute->IsString()) {
      keys_.push_back(*attribute);
      return;
    }
    for (const Text& part : Split(attribute->AsText(), ".", -1, false)) {
      const std::string& key = part.bytes();
      int64_t index = 0;
      const bool digits =
          !key.empty() && std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
      const bool is_index =
          digits && std::from_chars(key.data(), key.data() + key.size(), index).ec == std::errc();
      keys_.push_back(is_index ? Value(index) : Value(part));
    }
  }

  // `fallback`: what stands for a missing step, or null.
  Value Follow(Interpreter& in, Value item, const Value* fallback = nullptr) const {
    for (const Value& key : keys_) {
      item = in.GetItem(item, key);
      if (fallback != nullptr && item.IsUndefined()) item = *fallback;
    }
    return item;
  }

 private:
  std::vector<Value> keys_;
};

Value First(Interpreter&, const Value& value, Args& args) {
  ArgReader("filter 'first'", args, {});
  const Value none = Value::MakeUndefined("No first item, sequence was empty.");
  if (value.IsUndefined()) return none;
  if (value.IsList()) {
    const List& list = value.AsList();
    if (list.consumed >= list.items.size()) return none;
    return list.items[list.kind == ListKind::kGenerator ? list.consumed++ : 0];
  }
  if (value.IsDict()) return value.AsDict().entries.empty() ? none : value.AsDict().entries[0].first;
  if (!value.IsString()) throw Error(StrCat("'", TypeName(value), "' object is not iterable"));
  if (value.AsText().empty()) return none;
  char32_t c;
  return Value(value.AsText().Range(0, NextCodePoint(value.AsBytes(), 0, &c)));
}

Value Last(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'last'", args, {});
  const bool reversible =
      value.IsString() || value.IsDict() || (value.IsList() && value.AsList().Reversible());
  if (!reversible && !value.IsUndefined())
    throw Error(StrCat("'", TypeName(value), "' object is not reversible"));
  const std::vector<Value> items = Iterate(value, in.budget());
  return items.empty() ? Value::MakeUndefined("No last item, sequence was empty.") : items.back();
}

Value LengthFilter(Interpreter&, const Value& value, Args& args) {
  ArgReader("filter 'length'", args, {});
  const int64_t length = Length(value);
  if (length < 0) throw Error(StrCat("object of type '", TypeName(value), "' has no len()"));
  return Value(length);
}

Value ListFilter(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'list'", args, {});
  return MakeList(ListKind::kList, Iterate(value, in.budget()));
}

Value JoinFilter(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'join'", args, {"d", "attribute"});
  const AttributePath path(reader.Get(1));
  std::vector<Text> parts;
  size_t size = 0;
  for (Value& item : Iterate(value, in.budget())) {
    parts.push_back(in.ToStr(path.Follow(in, std::move(item))));
    Budget::CheckText(size += parts.back().size());
  }
  return in.Make(Join(reader.Given(0) ? in.ToStr(reader.Required(0)) : Text(), parts));
}

Value Default(Interpreter&, const Value& value, Args& args) {
  const ArgReader reader("filter 'default'", args, {"default_value", "boolean"});
  const bool use_default = value.IsUndefined() || (reader.Bool(1, false) && !IsTrue(value));
  if (!use_default) return value;
  return reader.Given(0) ? reader.Required(0) : Value::String("");
}

Value Items(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'items'", args, {});
  if (value.IsUndefined()) return MakeGenerator({});
  if (!value.IsDict()) throw Error("Can only get item pairs from a mapping.");
  std::vector<Value> items;
  for (const auto& [key, held] : value.AsDict().entries)
    items.push_back(MakeList(ListKind::kTuple, {key, held}));
  in.budget().Step(static_cast<int64_t>(items.size()));
  in.budget().Allocate(static_cast<int64_t>(items.size()) * 192);
  return MakeGenerator(std::move(items));
}

Value Reverse(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'reverse'", args, {});
  std::vector<Value> items = Iterate(value, in.budget());
  std::reverse(items.begin(), items.end());
  if (!value.IsString()) return MakeGenerator(std::move(items));
  Text out;
  for (const Value& item : items) out.Append(item.AsText());
  return in.Make(std::move(out));
}

// map and select look at nothing that is false: none has no items, rather than being an error.
std::vector<Value> ItemsIfTrue(Interpreter& in, const Value& value) {
  return IsTrue(value) ? Iterate(value, in.budget()) : std::vector<Value>{};
}

Value Map(Interpreter& in, const Value& value, Args& args) {
  std::vector<Value> items = ItemsIfTrue(in, value);
  if (args.positional.empty()) {
    const ArgReader reader("filter 'map'", args, {"attribute", "default"}, 1);
    const AttributePath path(&reader.Required(0));
    for (Value& item : items) item = path.Follow(in, item, reader.Get(1));
    return MakeGenerator(std::move(items));
  }
  if (!args.positional[0].IsString()) throw Error("filter 'map' needs a filter's name");
  const std::string name = args.positional[0].AsBytes();
  for (Value& item : items) {
    Args rest{{args.positional.begin() + 1, args.positional.end()}, args.named};
    item = in.CallFilter(name, item, rest);
  }
  return MakeGenerator(std::move(items));
}

// select, reject, selectattr, rejectattr: the items for which the test (none: truth) of the item or of its
// attribute says `keep`.
template <bool keep, bool by_attribute>
Value SelectFilter(Interpreter& in, const Value& value, Args& args) {
  size_t used = 0;
  const Value* attribute = nullptr;
  if (by_attribute) {
    if (args.positional.empty()) throw Error("Missing parameter for attribute name");
    attribute = &args.positional[used++];
  }
  const AttributePath path(attribute);
  std::optional<std::string> test;
  if (args.positional.size() > used) {
    if (!args.positional[used].IsString()) throw Error("the test's name must be a string");
    test = args.positional[used++].AsBytes();
  }
  std::vector<Value> kept;
  for (const Value& item : ItemsIfTrue(in, value)) {
    const Value subject = path.Follow(in, item);
    bool holds = false;
    if (test.has_value()) {
      Args rest{{args.positional.begin() + used, args.positional.end()}, args.named};
      holds = in.CallTest(*test, subject, rest);
    } else {
      holds = IsTrue(subject);
    }
    if (holds == keep) kept.push_back(item);
  }
  return MakeGenerator(std::move(kept));
}

// Stable, by `keys` (one list of keys an item), ascending or descending; as Python, equal items keep their
// order in both directions.
std::vector<Value> SortBy(Interpreter& in, std::vector<Value> items, const std::vector<Value>& keys,
                          bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return reverse ? Less(keys[b], keys[a], in.budget()) : Less(keys[a], keys[b], in.budget());
  });
  std::vector<Value> sorted;
  sorted.reserve(items.size());
  for (size_t i : order) sorted.push_back(items[i]);
  return sorted;
}

Value Sort(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'sort'", args, {"reverse", "case_sensitive", "attribute"});
  const bool case_sensitive = reader.Bool(1, false);
  std::vector<AttributePath> paths;
  if (reader.Get(2) != nullptr && reader.Get(2)->IsString()) {
    for (Text& part : Split(reader.String(2), ",", -1, false)) {
      const Value attribute{std::move(part)};
      paths.emplace_back(&attribute);
    }
  } else {
    paths.emplace_back(reader.Get(2));
  }
  std::vector<Value> items = Iterate(value, in.budget());
  std::vector<Value> keys;
  for (const Value& item : items) {
    std::vector<Value> key;
    for (const AttributePath& path : paths) {
      const Value part = path.Follow(in, item);
      key.push_back(case_sensitive ? part : LowerCased(in, part));
    }
    keys.push_back(MakeList(ListKind::kList, std::move(key)));
  }
  return MakeList(ListKind::kList, SortBy(in, std::move(items), keys, reader.Bool(0, false)));
}

Value DictSort(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'dictsort'", args, {"case_sensitive", "by", "reverse"});
  const std::string by = reader.Given(1) ? reader.String(1).bytes() : "key";
  if (by != "key" && by != "value") throw Error("You can only sort by either \"key\" or \"value\"");
  if (!value.IsDict()) throw Error(StrCat("filter 'dictsort' needs a dict, not ", TypeName(value)));
  std::vector<Value> items;
  std::vector<Value> keys;
  for (const auto& [key, held] : value.AsDict().entries) {
    const Value& sorted_by = by == "key" ? key : held;
    keys.push_back(reader.Bool(0, false) ? sorted_by : LowerCased(in, sorted_by));
    items.push_back(MakeList(ListKind::kTuple, {key, held}));
  }
  return MakeList(ListKind::kList, SortBy(in, std::move(items), keys, reader.Bool(2, false)));
}

Value Unique(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'unique'", args, {"case_sensitive", "attribute"});
  const AttributePath path(reader.Get(1));
  std::vector<Value> kept;
  std::vector<Value> seen;
  for (const Value& item : Iterate(value, in.budget())) {
    Value key = path.Follow(in, item);
    if (!reader.Bool(0, false)) key = LowerCased(in, key);
    const bool known =
        std::any_of(seen.begin(), seen.end(), [&](const Value& s) { return Equals(s, key, in.budget()); });
    if (known) continue;
    seen.push_back(std::move(key));
    kept.push_back(item);
  }
  return MakeGenerator(std::move(kept));
}

template <bool want_max>
Value Extreme(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("this filter", args, {"case_sensitive", "attribute"});
  const AttributePath path(reader.Get(1));
  const std::vector<Value> items = Iterate(value, in.budget());
  if (items.empty()) return Value::MakeUndefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) {
    const Value key = path.Follow(in, item);
    return reader.Bool(0, false) ? key : LowerCased(in, key);
  };
  size_t best = 0;
  Value best_key = key_of(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(items[i]);
    const bool better = want_max ? Less(best_key, key, in.budget()) : Less(key, best_key, in.budget());
    if (!better) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Value Sum(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'sum'", args, {"attribute", "start"});
  const AttributePath path(reader.Get(0));
  Value sum = reader.Given(1) ? reader.Required(1) : Value(int64_t{0});
  for (const Value& item : Iterate(value, in.budget())) {
    sum = Arithmetic("+", sum, path.Follow(in, item), in.budget());
  }
  return sum;
}

Value Batch(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'batch'", args, {"linecount", "fill_with"}, 1);
  const int64_t size = reader.Int(0, 1);
  std::vector<Value> rows;
  std::vector<Value> row;
  for (const Value& item : Iterate(value, in.budget())) {
    if (static_cast<int64_t>(row.size()) == size)
      rows.push_back(MakeList(ListKind::kList, std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    if (const Value* fill = reader.Get(1)) {
      Budget::CheckItems(size);
      while (static_cast<int64_t>(row.size()) < size) row.push_back(*fill);
    }
    rows.push_back(MakeList(ListKind::kList, std::move(row)));
  }
  return MakeGenerator(std::move(rows));
}

Value Slice(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'slice'", args, {"slices", "fill_with"}, 1);
  const int64_t slices = reader.Int(0, 1);
  if (slices <= 0) throw Error("filter 'slice': the number of slices must be positive");
  Budget::CheckItems(slices);
  const std::vector<Value> items = Iterate(value, in.budget());
  const auto length = static_cast<int64_t>(items.size());
  std::vector<Value> rows;
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const int64_t count = length / slices + (i < length % slices ? 1 : 0);
    std::vector<Value> row(items.begin() + begin, items.begin() + begin + count);
    if (reader.Get(1) != nullptr && i >= length % slices && length % slices != 0)
      row.push_back(*reader.Get(1));
    begin += count;
    rows.push_back(MakeList(ListKind::kList, std::move(row)));
  }
  return MakeGenerator(std::move(rows));
}

Value GroupBy(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'groupby'", args, {"attribute", "default", "case_sensitive"}, 1);
  const AttributePath path(&reader.Required(0));
  const auto key_of = [&](const Value& item) {
    const Value key = path.Follow(in, item, reader.Get(1));
    return reader.Bool(2, false) ? key : LowerCased(in, key);
  };
  std::vector<Value> items = Iterate(value, in.budget());
  std::vector<Value> keys;
  for (const Value& item : items) keys.push_back(key_of(item));
  std::vector<Value> groups;
  std::vector<Value> group;
  const auto finish = [&] {
    if (group.empty()) return;
    const Value name = path.Follow(in, group[0], reader.Get(1));
    groups.push_back(MakeList(ListKind::kTuple, {name, MakeList(ListKind::kList, std::exchange(group, {}))}));
  };
  for (const Value& item : SortBy(in, std::move(items), keys, false)) {
    if (!group.empty() && !Equals(key_of(group[0]), key_of(item), in.budget())) finish();
    group.push_back(item);
  }
  finish();
  return MakeList(ListKind::kList, std::move(groups));
}

Value Attr(Interpreter& in, const Value& value, Args& args) {
  const std::string& name = ArgReader("filter 'attr'", args, {"name"}, 1).String(0).bytes();
  if (value.IsDict()) {  // attributes only, never keys
    return FindMethod(value, name)
        .value_or(Value::MakeUndefined(StrCat("'dict object' has no attribute '", name, "'")));
  }
  return in.GetAttribute(value, name);
}

constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
    {"attr", Attr},
    {"batch", Batch},
    {"count", LengthFilter},
    {"d", Default},
    {"default", Default},
    {"dictsort", DictSort},
    {"first", First},
    {"groupby", GroupBy},
    {"items", Items},
    {"join", JoinFilter},
    {"last", Last},
    {"length", LengthFilter},
    {"list", ListFilter},
    {"map", Map},
    {"max", Extreme<true>},
    {"min", Extreme<false>},
    {"reject", SelectFilter<false, false>},
    {"rejectattr", SelectFilter<false, true>},
    {"reverse", Reverse},
    {"select", SelectFilter<true, false>},
    {"selectattr", SelectFilter<true, true>},
    {"slice", Slice},
    {"sort", Sort},
    {"sum", Sum},
    {"unique", Unique},
};

}  // namespace

FilterFunction FindSequenceFilter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [&](const auto& filter) { return filter.first == name; });
  return found == std::end(kFilters) ? nullptr : found->second;
}

}  // namespace ftune::jinja
