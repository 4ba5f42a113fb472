// The tests of `value is name`, after jinja2/tests.py.
#include <algorithm>
#include <array>
#include <utility>

#include "base/strings.h"
#include "data/template/jinja_args.h"
#include "data/template/jinja_builtins.h"
#include "data/template/jinja_operators.h"
#include "data/template/jinja_unicode.h"

namespace ftune::jinja {
namespace {

void NoArguments(const Args& args) { ArgReader("this test", args, {}); }

template <bool (*Predicate)(const Value&)>
bool Simple(Interpreter&, const Value& value, Args& args) {
  NoArguments(args);
  return Predicate(value);
}

bool IsDefined(const Value& v) { return !v.IsUndefined(); }
bool IsUndefinedValue(const Value& v) { return v.IsUndefined(); }
bool IsNone(const Value& v) { return v.IsNone(); }
bool IsBoolean(const Value& v) { return v.IsBool(); }
bool IsExactlyTrue(const Value& v) { return v.IsBool() && v.AsBool(); }
bool IsExactlyFalse(const Value& v) { return v.IsBool() && !v.AsBool(); }
bool IsInteger(const Value& v) { return v.IsInt(); }
bool IsFloat(const Value& v) { return v.IsFloat(); }
bool IsNumber(const Value& v) { return v.IsNumber(); }
bool IsString(const Value& v) { return v.IsString(); }
bool IsMapping(const Value& v) { return v.IsDict(); }
bool IsIterable(const Value& v) {
  return v.IsUndefined() || v.IsString() || v.IsList() || v.IsDict() || v.GetLoop();
}
bool IsSequence(const Value& v) {
  return v.IsUndefined() || v.IsString() || v.IsDict() || (v.IsList() && v.AsList().Indexable());
}
bool IsCallable(const Value& v) { return v.GetCallable() != nullptr || v.GetLoop() != nullptr; }
bool IsEscaped(const Value& v) { return v.IsString() && v.AsText().markup; }

// str.islower / str.isupper of what the value prints as: some cased letter, none of the other case.
bool HasOnlyCase(Interpreter& in, const Value& value, bool upper) {
  const Text text = in.ToStr(value);
  bool found = false;
  for (size_t pos = 0; pos < text.size();) {
    char32_t c;
    pos = NextCodePoint(text.bytes(), pos, &c);
    if (upper ? IsLower(c) : IsUpper(c)) return false;
    found = found || (upper ? IsUpper(c) : IsLower(c));
  }
  return found;
}

bool TestLower(Interpreter& in, const Value& value, Args& args) {
  NoArguments(args);
  return HasOnlyCase(in, value, false);
}

bool TestUpper(Interpreter& in, const Value& value, Args& args) {
  NoArguments(args);
  return HasOnlyCase(in, value, true);
}

bool RemainderIs(Interpreter& in, const Value& value, const Value& divisor, int64_t remainder) {
  return Equals(Arithmetic("%", value, divisor, in.budget()), Value(remainder), in.budget());
}

bool TestOdd(Interpreter& in, const Value& value, Args& args) {
  NoArguments(args);
  return RemainderIs(in, value, Value(int64_t{2}), 1);
}

bool TestEven(Interpreter& in, const Value& value, Args& args) {
  NoArguments(args);
  return RemainderIs(in, value, Value(int64_t{2}), 0);
}

bool TestDivisibleBy(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("test 'divisibleby'", args, {"num"}, 1);
  return RemainderIs(in, value, reader.Required(0), 0);
}

bool TestSameAs(Interpreter&, const Value& value, Args& args) {
  const Value& other = ArgReader("test 'sameas'", args, {"other"}, 1).Required(0);
  if (value.IsNone() || other.IsNone()) return value.IsNone() && other.IsNone();
  if (value.IsBool() || other.IsBool())
    return value.IsBool() && other.IsBool() && value.AsBool() == other.AsBool();
  // Python's own numbers are one object each only where they are small; equal ones count as the same here.
  if (value.IsNumber() && other.IsNumber()) {
    return value.IsInt() == other.IsInt() && value.AsDouble() == other.AsDouble();
  }
  return value.Identity() != nullptr && value.Identity() == other.Identity();
}

bool TestIn(Interpreter& in, const Value& value, Args& args) {
  return Contains(ArgReader("test 'in'", args, {"seq"}, 1).Required(0), value, in.budget());
}

bool TestEqual(Interpreter& in, const Value& value, Args& args) {
  return Equals(value, ArgReader("test 'eq'", args, {"other"}, 1).Required(0), in.budget());
}

bool TestNotEqual(Interpreter& in, const Value& value, Args& args) { return !TestEqual(in, value, args); }

bool TestLess(Interpreter& in, const Value& value, Args& args) {
  return Less(value, ArgReader("test 'lt'", args, {"other"}, 1).Required(0), in.budget());
}

bool TestGreater(Interpreter& in, const Value& value, Args& args) {
  return Less(ArgReader("test 'gt'", args, {"other"}, 1).Required(0), value, in.budget());
}

bool TestLessOrEqual(Interpreter& in, const Value& value, Args& args) {
  return TestLess(in, value, args) || TestEqual(in, value, args);
}

bool TestGreaterOrEqual(Interpreter& in, const Value& value, Args& args) {
  return TestGreater(in, value, args) || TestEqual(in, value, args);
}

bool TestFilterExists(Interpreter&, const Value& value, Args& args) {
  NoArguments(args);
  return value.IsString() && FindFilter(value.AsBytes()) != nullptr;
}

bool TestTestExists(Interpreter&, const Value& value, Args& args) {
  NoArguments(args);
  return value.IsString() && FindTest(value.AsBytes()) != nullptr;
}

constexpr std::pair<std::string_view, TestFunction> kTests[] = {
    {"!=", TestNotEqual},
    {"<", TestLess},
    {"<=", TestLessOrEqual},
    {"==", TestEqual},
    {">", TestGreater},
    {">=", TestGreaterOrEqual},
    {"boolean", Simple<IsBoolean>},
    {"callable", Simple<IsCallable>},
    {"defined", Simple<IsDefined>},
    {"divisibleby", TestDivisibleBy},
    {"eq", TestEqual},
    {"equalto", TestEqual},
    {"escaped", Simple<IsEscaped>},
    {"even", TestEven},
    {"false", Simple<IsExactlyFalse>},
    {"filter", TestFilterExists},
    {"float", Simple<IsFloat>},
    {"ge", TestGreaterOrEqual},
    {"greaterthan", TestGreater},
    {"gt", TestGreater},
    {"in", TestIn},
    {"integer", Simple<IsInteger>},
    {"iterable", Simple<IsIterable>},
    {"le", TestLessOrEqual},
    {"lessthan", TestLess},
    {"lower", TestLower},
    {"lt", TestLess},
    {"mapping", Simple<IsMapping>},
    {"ne", TestNotEqual},
    {"none", Simple<IsNone>},
    {"number", Simple<IsNumber>},
    {"odd", TestOdd},
    {"sameas", TestSameAs},
    {"sequence", Simple<IsSequence>},
    {"string", Simple<IsString>},
    {"test", TestTestExists},
    {"true", Simple<IsExactlyTrue>},
    {"undefined", Simple<IsUndefinedValue>},
    {"upper", TestUpper},
};

}  // namespace

TestFunction FindTest(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(kTests), std::end(kTests), [&](const auto& t) { return t.first == name; });
  return found == std::end(kTests) ? nullptr : found->second;
}

}  // namespace ftune::jinja
