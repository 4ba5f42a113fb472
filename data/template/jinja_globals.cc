// Global functions: Jinja's own (range, dict, namespace, cycler, joiner) and the two that transformers adds.
#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "data/template/jinja_args.h"
#include "data/template/jinja_builtins.h"

namespace ftune::jinja {
namespace {

Value MakeFunction(std::string name, std::function<Value(Interpreter&, Args&)> call) {
  return Value(std::make_shared<const Callable>(Callable{std::move(name), std::move(call)}));
}

Value Range(Interpreter& in, Args& args) {
  const ArgReader reader("range", args, {"start", "stop", "step"}, 1);
  const int64_t first = reader.Int(0, 0);
  const bool one_argument = !reader.Given(1);
  const int64_t start = one_argument ? 0 : first;
  const int64_t stop = one_argument ? first : reader.Int(1, 0);
  const int64_t step = reader.Int(2, 1);
  if (step == 0) throw Error("range() arg 3 must not be zero");
  std::vector<Value> items;
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(items.size()) >= Budget::kMaxRange) {
      throw Error("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
    }
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  in.budget().Step(static_cast<int64_t>(items.size()));
  in.budget().Allocate(static_cast<int64_t>(items.size()) * 32);
  return MakeList(ListKind::kRange, std::move(items));
}

// The key-value pairs of dict(mapping or list of pairs, name=value, …).
std::vector<std::pair<Value, Value>> CollectEntries(Interpreter& in, std::string_view function,
                                                    const Args& args) {
  if (args.positional.size() > 1)
    throw Error(StrCat(function, " expected at most 1 argument, got ", args.positional.size()));
  std::vector<std::pair<Value, Value>> entries;
  const auto set = [&](const Value& key, const Value& value) {
    in.budget().Step(static_cast<int64_t>(entries.size() / 16));
    for (auto& [held, old] : entries) {
      if (Equals(held, key, in.budget())) {
        old = value;
        return;
      }
    }
    entries.emplace_back(key, value);
  };
  if (!args.positional.empty() && args.positional[0].IsDict()) {
    entries = args.positional[0].AsDict().entries;
  } else if (!args.positional.empty()) {
    for (const Value& pair : Iterate(args.positional[0], in.budget())) {
      const std::vector<Value> both = Iterate(pair, in.budget());
      if (both.size() != 2) throw Error(StrCat(function, ": a pair of key and value is needed"));
      set(both[0], both[1]);
    }
  }
  for (const auto& [name, value] : args.named) set(Value::String(name), value);
  in.budget().Allocate(static_cast<int64_t>(entries.size()) * 64);
  return entries;
}

Value MakeDictValue(Interpreter& in, Args& args) { return MakeDict(CollectEntries(in, "dict", args)); }

Value MakeNamespace(Interpreter& in, Args& args) {
  NamespacePtr ns = in.NewNamespace();
  for (auto& [key, value] : CollectEntries(in, "namespace", args)) {
    if (!key.IsString()) throw Error("namespace: names must be strings");
    if (key.AsBytes().starts_with("_")) {
      throw Error(StrCat("a namespace cannot have an attribute '", key.AsBytes(), "' that begins with _"));
    }
    ns->Set(key.AsBytes(), std::move(value));
  }
  return Value(std::move(ns));
}

// cycler and joiner keep a count between calls; their object is a namespace that holds bound functions.
Value MakeCycler(Interpreter& in, Args& args) {
  if (args.positional.empty()) throw Error("at least one item has to be provided");
  const auto items = std::make_shared<const std::vector<Value>>(args.positional);
  const auto position = std::make_shared<size_t>(0);
  NamespacePtr cycler = in.NewNamespace();
  const auto next = [items, position](Interpreter&, Args&) {
    const Value value = (*items)[*position];
    *position = (*position + 1) % items->size();
    return value;
  };
  cycler->Set("next", MakeFunction("next", next));
  cycler->Set("reset", MakeFunction("reset", [position](Interpreter&, Args&) {
                *position = 0;
                return Value();
              }));
  cycler->Set("items", MakeList(ListKind::kTuple, *items));
  return Value(std::move(cycler));
}

Value MakeJoiner(Interpreter&, Args& args) {
  const ArgReader reader("joiner", args, {"sep"});
  const Value separator = reader.Given(0) ? reader.Required(0) : Value::String(", ");
  const auto used = std::make_shared<bool>(false);
  return MakeFunction("joiner", [separator, used](Interpreter&, Args&) {
    return std::exchange(*used, true) ? separator : Value::String("");
  });
}

Value RaiseException(Interpreter& in, Args& args) {
  const ArgReader reader("raise_exception", args, {"message"}, 1);
  Error error(in.ToStr(reader.Required(0)).bytes(), in.line());
  error.by_template = true;
  throw error;
}

Value StrftimeNow(Interpreter& in, Args& args) {
  const std::string& format = ArgReader("strftime_now", args, {"format"}, 1).String(0).bytes();
  if (format.empty()) return Value::String("");
  if (format.size() > 1000) throw Error("strftime_now: the format is longer than 1000 bytes");
  const std::tm now = in.Now();
  std::string out(format.size() * 64 + 64, '\0');
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &now));
  return in.Make(Text(std::move(out)));
}

struct Globals {
  std::vector<std::pair<std::string_view, Value>> values;
};

Globals MakeGlobals() {
  Globals globals;
  const std::pair<std::string_view, Value (*)(Interpreter&, Args&)> functions[] = {
      {"range", Range},
      {"dict", MakeDictValue},
      {"namespace", MakeNamespace},
      {"cycler", MakeCycler},
      {"joiner", MakeJoiner},
      {"raise_exception", RaiseException},
      {"strftime_now", StrftimeNow},
  };
  for (const auto& [name, function] : functions) {
    globals.values.emplace_back(name, MakeFunction(std::string(name), function));
  }
  return globals;
}

}  // namespace

const Value* FindGlobal(std::string_view name) {
  static const Globals globals = MakeGlobals();
  for (const auto& [key, value] : globals.values) {
    if (key == name) return &value;
  }
  return nullptr;
}

}  // namespace ftune::jinja
