#include "data/template/jinja_operators.h"

#include <cmath>

#include "base/strings.h"
#include "data/template/jinja_format.h"

namespace ftune::jinja {
namespace {

[[noreturn]] void ThrowUnsupported(std::string_view op, const Value& a, const Value& b) {
  if (a.IsUndefined()) throw Error(a.AsUndefined().message);
  if (b.IsUndefined()) throw Error(b.AsUndefined().message);
  if (op == "+" && a.IsString()) {
    throw Error(StrCat("can only concatenate str (not \"", TypeName(b), "\") to str"));
  }
  throw Error(
      StrCat("unsupported operand type(s) for ", op, ": '", TypeName(a), "' and '", TypeName(b), "'"));
}

[[noreturn]] void ThrowOverflow() { throw Error("a number does not fit 64 bits"); }

int64_t Power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) ThrowOverflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) ThrowOverflow();
  }
  return result;
}

Value IntegerArithmetic(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  const bool overflow = op == "+"   ? __builtin_add_overflow(a, b, &result)
                        : op == "-" ? __builtin_sub_overflow(a, b, &result)
                        : op == "*" ? __builtin_mul_overflow(a, b, &result)
                                    : false;
  if (overflow) ThrowOverflow();
  if (op == "+" || op == "-" || op == "*") return Value(result);
  if (op == "**") {
    if (b >= 0) return Value(Power(a, b));
    if (a == 0) throw Error("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  if (b == 0) throw Error(op == "%" ? "integer modulo by zero" : "division by zero");
  if (op == "/") return Value(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1) return op == "%" ? Value(int64_t{0}) : IntegerArithmetic("-", 0, a);  // a / b may overflow
  const int64_t remainder = a % b;
  const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);
  if (op == "%") return Value(adjust ? remainder + b : remainder);
  return Value(adjust ? a / b - 1 : a / b);
}

Value FloatArithmetic(std::string_view op, double a, double b) {
  if (op == "+") return Value(a + b);
  if (op == "-") return Value(a - b);
  if (op == "*") return Value(a * b);
  if (op == "**") return Value(std::pow(a, b));
  if (b == 0) throw Error(op == "/" ? "float division by zero" : "float floor division or modulo by zero");
  if (op == "/") return Value(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (op == "%") return Value(remainder);
  return Value(std::floor((a - remainder) / b + 0.5));
}

bool IsPlainList(const Value& value, ListKind kind) { return value.IsList() && value.AsList().kind == kind; }

Value AddLists(const List& a, const List& b, Budget& budget) {
  std::vector<Value> items = a.items;
  items.insert(items.end(), b.items.begin(), b.items.end());
  budget.Allocate(static_cast<int64_t>(items.size()) * 32);
  return MakeList(a.kind, std::move(items));
}

Value Repeat(const Value& value, int64_t count, Budget& budget) {
  if (count < 0) count = 0;
  if (value.IsString()) {
    const Text& text = value.AsText();
    if (!text.empty() && count > static_cast<int64_t>(Budget::kMaxTextBytes / text.size())) {
      Budget::CheckText(Budget::kMaxTextBytes + 1);
    }
    budget.Allocate(static_cast<int64_t>(text.size()) * count);
    std::string bytes;
    bytes.reserve(text.size() * count);
    if (!text.empty()) {
      for (int64_t i = 0; i < count; ++i) bytes += text.bytes();
    }
    return Value(Text(std::move(bytes), text.Merged()));
  }
  const List& list = value.AsList();
  if (!list.items.empty() && count > Budget::kMaxItems / static_cast<int64_t>(list.items.size())) {
    Budget::CheckItems(Budget::kMaxItems + 1);
  }
  std::vector<Value> items;
  if (!list.items.empty()) {
    for (int64_t i = 0; i < count; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  }
  budget.Allocate(static_cast<int64_t>(items.size()) * 32);
  return MakeList(list.kind, std::move(items));
}

bool IsRepeatable(const Value& value) {
  return value.IsString() || IsPlainList(value, ListKind::kList) || IsPlainList(value, ListKind::kTuple);
}

}  // namespace

Text EscapeHtml(const Text& text) {
  Text out;
  const std::string& bytes = text.bytes();
  for (size_t i = 0; i < bytes.size();) {
    const size_t special = std::min(bytes.find_first_of("&<>\"'", i), bytes.size());
    out.AppendRange(text, i, special);
    if (special == bytes.size()) break;
    const char c = bytes[special];
    const std::string_view entity = c == '&'   ? "&amp;"
                                    : c == '<' ? "&lt;"
                                    : c == '>' ? "&gt;"
                                    : c == '"' ? "&#34;"
                                               : "&#39;";
    out.Append(entity, text.Range(special, special + 1).Merged());
    i = special + 1;
  }
  out.markup = true;
  return out;
}

Text Concatenate(const Text& a, const Text& b) {
  Budget::CheckText(a.size() + b.size());
  Text out = b.markup && !a.markup ? EscapeHtml(a) : a;
  out.Append(a.markup && !b.markup ? EscapeHtml(b) : b);
  out.markup = a.markup || b.markup;
  return out;
}

Value Arithmetic(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (a.IsIntegral() && b.IsIntegral()) return IntegerArithmetic(op, a.AsInt(), b.AsInt());
  if (a.IsNumber() && b.IsNumber()) return FloatArithmetic(op, a.AsDouble(), b.AsDouble());
  if (op == "+") {
    if (a.IsString() && b.IsString()) {
      Text text = Concatenate(a.AsText(), b.AsText());
      budget.Allocate(static_cast<int64_t>(text.size()));
      return Value(std::move(text));
    }
    const bool lists = IsPlainList(a, ListKind::kList) && IsPlainList(b, ListKind::kList);
    const bool tuples = IsPlainList(a, ListKind::kTuple) && IsPlainList(b, ListKind::kTuple);
    if (lists || tuples) return AddLists(a.AsList(), b.AsList(), budget);
  }
  if (op == "*" && IsRepeatable(a) && b.IsIntegral()) return Repeat(a, b.AsInt(), budget);
  if (op == "*" && a.IsIntegral() && IsRepeatable(b)) return Repeat(b, a.AsInt(), budget);
  if (op == "%" && a.IsString()) return Value(FormatPercent(a.AsText(), b, budget));
  ThrowUnsupported(op, a, b);
}

Value Negate(const Value& value) {
  if (value.IsIntegral()) return IntegerArithmetic("-", 0, value.AsInt());
  if (value.IsFloat()) return Value(-value.AsDouble());
  if (value.IsUndefined()) throw Error(value.AsUndefined().message);
  throw Error(StrCat("bad operand type for unary -: '", TypeName(value), "'"));
}

Value Plus(const Value& value) {
  if (value.IsIntegral()) return Value(value.AsInt());
  if (value.IsFloat()) return value;
  if (value.IsUndefined()) throw Error(value.AsUndefined().message);
  throw Error(StrCat("bad operand type for unary +: '", TypeName(value), "'"));
}

}  // namespace ftune::jinja
