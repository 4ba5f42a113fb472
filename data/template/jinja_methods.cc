// Methods of dicts and lists. Those that would change them exist but must not be called.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "data/template/jinja_args.h"
#include "data/template/jinja_builtins.h"

namespace ftune::jinja {
namespace {

using Method = Value (*)(Interpreter& in, const Value& self, Args& args);

Value DictGet(Interpreter& in, const Value& self, Args& args) {
  const ArgReader reader("get", args, {"key", "default"}, 1);
  if (const Value* found = self.AsDict().Find(reader.Required(0), in.budget())) return *found;
  return reader.Given(1) ? reader.Required(1) : Value();
}

Value DictItems(Interpreter& in, const Value& self, Args& args) {
  ArgReader("items", args, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.AsDict().entries)
    items.push_back(MakeList(ListKind::kTuple, {key, value}));
  in.budget().Step(static_cast<int64_t>(items.size()));
  in.budget().Allocate(static_cast<int64_t>(items.size()) * 192);
  return MakeList(ListKind::kItems, std::move(items));
}

Value DictKeys(Interpreter& in, const Value& self, Args& args) {
  ArgReader("keys", args, {});
  return MakeList(ListKind::kKeys, Iterate(self, in.budget()));
}

Value DictValues(Interpreter& in, const Value& self, Args& args) {
  ArgReader("values", args, {});
  std::vector<Value> values;
  for (const auto& entry : self.AsDict().entries) values.push_back(entry.second);
  in.budget().Step(static_cast<int64_t>(values.size()));
  in.budget().Allocate(static_cast<int64_t>(values.size()) * 32);
  return MakeList(ListKind::kValues, std::move(values));
}

Value Copy(Interpreter&, const Value& self, Args& args) {
  ArgReader("copy", args, {});
  return self;
}

Value ListIndex(Interpreter& in, const Value& self, Args& args) {
  const ArgReader reader("index", args, {"value"}, 1);
  const auto& items = self.AsList().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (Equals(items[i], reader.Required(0), in.budget())) return Value(static_cast<int64_t>(i));
  }
  throw Error("the value is not in the list");
}

Value ListCount(Interpreter& in, const Value& self, Args& args) {
  const ArgReader reader("count", args, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.AsList().items)
    count += Equals(item, reader.Required(0), in.budget()) ? 1 : 0;
  return Value(count);
}

constexpr std::pair<std::string_view, Method> kDictMethods[] = {
    {"copy", Copy}, {"get", DictGet}, {"items", DictItems}, {"keys", DictKeys}, {"values", DictValues},
};
constexpr std::string_view kDictChangers[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::pair<std::string_view, Method> kListMethods[] = {
    {"copy", Copy},
    {"count", ListCount},
    {"index", ListIndex},
};
constexpr std::string_view kListChangers[] = {"append", "clear",  "extend",  "insert",
                                              "pop",    "remove", "reverse", "sort"};

template <typename Methods, typename Changers>
std::optional<Value> Find(const Value& self, std::string_view name, const Methods& methods,
                          const Changers& changers) {
  for (const auto& [key, method] : methods) {
    if (key != name) continue;
    auto callable = std::make_shared<Callable>();
    callable->name = std::string(name);
    callable->call = [self, method = method](Interpreter& in, Args& args) { return method(in, self, args); };
    return Value(CallablePtr(std::move(callable)));
  }
  if (std::find(std::begin(changers), std::end(changers), name) != std::end(changers)) {
    return Value::MakeUndefined(StrCat("access to attribute '", name, "' of '", TypeName(self),
                                       "' object is unsafe: a template may not change it"));
  }
  return std::nullopt;
}

}  // namespace

std::optional<Value> FindMethod(const Value& self, std::string_view name) {
  if (self.IsString()) return FindStringMethod(self, name);
  if (self.IsDict()) return Find(self, name, kDictMethods, kDictChangers);
  if (self.IsList() && self.AsList().Indexable()) return Find(self, name, kListMethods, kListChangers);
  return std::nullopt;
}

}  // namespace ftune::jinja
