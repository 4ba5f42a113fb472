// Python's two ways of formatting: "%" and str.format, as far as templates go.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "data/template/jinja_format.h"
#include "data/template/jinja_unicode.h"

namespace ftune::jinja {
namespace {

constexpr int kMaxWidth = 100'000;

// [[fill]align][sign][#][0][width][,][.precision][type]
struct Spec {
  std::string fill = " ";
  char align = 0;  // one of < > ^ = or 0 for the type's default
  char sign = '-';
  bool alternate = false;
  bool commas = false;
  int width = 0;
  int precision = -1;
  char type = 0;
};

int ParseNumber(std::string_view text, size_t* pos) {
  int value = 0;
  while (*pos < text.size() && text[*pos] >= '0' && text[*pos] <= '9') {
    value = value * 10 + (text[*pos] - '0');
    if (value > kMaxWidth) throw Error("a format's width or precision is over 100000");
    ++*pos;
  }
  return value;
}

Text Pad(Text body, const Spec& spec, char default_align) {
  const int64_t missing = spec.width - static_cast<int64_t>(CountCodePoints(body.bytes()));
  if (missing <= 0) return body;
  const char align = spec.align == 0 ? default_align : spec.align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  Text out;
  size_t sign_end = 0;
  if (align == '=' && !body.empty() && (body.bytes()[0] == '-' || body.bytes()[0] == '+')) sign_end = 1;
  out.AppendRange(body, 0, sign_end);
  std::string padding;
  for (int64_t i = 0; i < left; ++i) padding += spec.fill;
  out.Append(padding);
  out.AppendRange(body, sign_end, body.size());
  padding.clear();
  for (int64_t i = left; i < missing; ++i) padding += spec.fill;
  out.Append(padding);
  return out;
}

std::string WithCommas(const std::string& digits) {
  const size_t whole = std::min(digits.find('.'), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    const bool boundary = i > 0 && (whole - i) % 3 == 0 && digits[i - 1] != '-' && digits[i - 1] != '+';
    if (boundary) out.push_back(',');
    out.push_back(digits[i]);
  }
  return out + digits.substr(whole);
}

std::string FormatInteger(int64_t value, const Spec& spec) {
  const bool negative = value < 0;
  const uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  char buffer[72];
  const int base = spec.type == 'x' || spec.type == 'X' ? 16
                   : spec.type == 'o'                   ? 8
                   : spec.type == 'b'                   ? 2
                                                        : 10;
  std::string digits(buffer, std::to_chars(buffer, buffer + sizeof(buffer), magnitude, base).ptr);
  if (spec.type == 'X') digits = ToUpper(digits);
  if (spec.commas) digits = WithCommas(digits);
  if (spec.alternate && base != 10) digits = std::string("0") + spec.type + digits;
  return (negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign)) + digits;
}

std::string FormatFloating(double value, const Spec& spec) {
  std::string digits;
  const double magnitude = std::fabs(value);
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  switch (spec.type) {
    case 'f':
    case 'F':
    case '%':
      digits = absl::StrFormat("%.*f", precision, spec.type == '%' ? magnitude * 100 : magnitude);
      break;
    case 'e':
      digits = absl::StrFormat("%.*e", precision, magnitude);
      break;
    case 'E':
      digits = absl::StrFormat("%.*E", precision, magnitude);
      break;
    case 'G':
      digits = absl::StrFormat("%.*G", precision, magnitude);
      break;
    case 'g':
      digits = absl::StrFormat("%.*g", precision, magnitude);
      break;
    default:
      digits = spec.precision < 0 ? FloatRepr(magnitude) : absl::StrFormat("%.*g", precision, magnitude);
  }
  if (spec.commas) digits = WithCommas(digits);
  if (spec.type == '%') digits += "%";
  return (std::signbit(value) ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign)) + digits;
}

bool IsFloatType(char type) { return std::string_view("fFeEgG%").find(type) != std::string_view::npos; }
bool IsIntegerType(char type) { return std::string_view("dixXob").find(type) != std::string_view::npos; }

Text CutToPrecision(Text text, int precision) {
  return precision < 0 ? text : text.Range(0, OffsetOfCodePoint(text.bytes(), precision));
}

// One value by the rules of str.format.
Text FormatValue(const Value& value, const Spec& spec, Budget& budget) {
  const bool as_text = spec.type == 's' || (spec.type == 0 && (value.IsBool() || !value.IsNumber()));
  if (as_text) return Pad(CutToPrecision(ToText(value, budget), spec.precision), spec, '<');
  const bool as_float = value.IsFloat() || IsFloatType(spec.type);
  const bool known = spec.type == 0 || (as_float ? IsFloatType(spec.type) : IsIntegerType(spec.type));
  if (!value.IsNumber() || !known) {
    throw Error(StrCat("Unknown format code '", spec.type, "' for object of type '", TypeName(value), "'"));
  }
  return Pad(Text(as_float ? FormatFloating(value.AsDouble(), spec) : FormatInteger(value.AsInt(), spec)),
             spec, '>');
}

Spec ParseSpec(std::string_view text) {
  Spec spec;
  size_t pos = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    char32_t c;
    const size_t next = NextCodePoint(text, 0, &c);
    if (next < text.size() && is_align(text[next])) {
      spec.fill = std::string(text.substr(0, next));
      spec.align = text[next];
      pos = next + 1;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      pos = 1;
    }
  }
  const auto peek = [&] { return pos < text.size() ? text[pos] : '\0'; };
  if (peek() == '+' || peek() == '-' || peek() == ' ') spec.sign = text[pos++];
  if (peek() == '#') {
    spec.alternate = true;
    ++pos;
  }
  if (peek() == '0') {
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    ++pos;
  }
  spec.width = ParseNumber(text, &pos);
  if (peek() == ',') {
    spec.commas = true;
    ++pos;
  }
  if (peek() == '.') {
    ++pos;
    spec.precision = ParseNumber(text, &pos);
  }
  if (pos < text.size()) spec.type = text[pos++];
  if (pos != text.size()) throw Error(StrCat("Invalid format specifier '", text, "'"));
  return spec;
}

bool ParseIndex(std::string_view text, size_t* index) {
  const auto end = text.data() + text.size();
  return std::from_chars(text.data(), end, *index).ptr == end && !text.empty();
}

// A {field}: an index or a name, then [key] steps into dicts and lists.
Value ResolveField(std::string_view field, const Args& args, size_t* next_index) {
  size_t pos = std::min(field.find_first_of(".["), field.size());
  const std::string_view head = field.substr(0, pos);
  Value value;
  size_t index = 0;
  const bool numbered = ParseIndex(head, &index);
  if (head.empty() || numbered) {
    if (head.empty()) index = (*next_index)++;
    if (index >= args.positional.size())
      throw Error("Replacement index out of range for positional args tuple");
    value = args.positional[index];
  } else {
    const auto found =
        std::find_if(args.named.begin(), args.named.end(), [&](const auto& a) { return a.first == head; });
    if (found == args.named.end()) throw Error(StrCat("format: no argument '", head, "'"));
    value = found->second;
  }
  while (pos < field.size()) {
    const size_t close = field[pos] == '[' ? field.find(']', pos) : std::string_view::npos;
    if (close == std::string_view::npos) throw Error(StrCat("format: cannot read the field '", field, "'"));
    const std::string_view key = field.substr(pos + 1, close - pos - 1);
    const Value* inner = nullptr;
    size_t at = 0;
    if (value.IsDict()) inner = value.AsDict().Find(key);
    if (value.IsList() && ParseIndex(key, &at) && at < value.AsList().items.size()) {
      inner = &value.AsList().items[at];
    }
    if (inner == nullptr) throw Error(StrCat("format: nothing at '", field, "'"));
    value = Value(*inner);
    pos = close + 1;
  }
  return value;
}

// format % arguments.
class PercentFormatter {
 public:
  PercentFormatter(const Text& format, const Value& arguments, Budget& budget)
      : format_(format), f_(format.bytes()), arguments_(arguments), budget_(budget) {
    const bool tuple = arguments.IsList() && arguments.AsList().kind == ListKind::kTuple;
    values_ = tuple ? arguments.AsList().items : std::vector<Value>{arguments};
    // Python takes whatever has items by key for a possible source of names, which need not all be used.
    all_needed_ = tuple || !(arguments.IsDict() || arguments.IsList() || arguments.IsUndefined());
  }

  Text Run() {
    Text out;
    while (pos_ < f_.size()) {
      const size_t percent = std::min(f_.find('%', pos_), f_.size());
      out.AppendRange(format_, pos_, percent);
      pos_ = percent + 1;
      if (percent < f_.size()) out.Append(Directive());
      Budget::CheckText(out.size());
    }
    if (all_needed_ && used_ < values_.size())
      throw Error("not all arguments converted during string formatting");
    budget_.Allocate(static_cast<int64_t>(out.size()));
    return out;
  }

 private:
  char Peek() const { return pos_ < f_.size() ? f_[pos_] : '\0'; }

  // What follows a percent sign.
  Text Directive() {
    std::optional<Value> named;
    if (Peek() == '(') named = TakeNamed();
    Spec spec = TakeSpec();
    if (pos_ >= f_.size()) throw Error("incomplete format");
    spec.type = f_[pos_++];
    if (spec.type == '%') return Text("%");
    if (!named.has_value() && used_ >= values_.size()) throw Error("not enough arguments for format string");
    return Convert(named.has_value() ? *named : values_[used_++], std::move(spec));
  }

  Value TakeNamed() {
    const size_t close = f_.find(')', pos_);
    if (close == std::string::npos) throw Error("incomplete format key");
    if (!arguments_.IsDict()) throw Error("format requires a mapping");
    const std::string key = f_.substr(pos_ + 1, close - pos_ - 1);
    const Value* found = arguments_.AsDict().Find(key);
    if (found == nullptr) throw Error(StrCat("format: no key '", key, "'"));
    pos_ = close + 1;
    return *found;
  }

  Spec TakeSpec() {
    Spec spec;
    bool zero = false;
    for (;; ++pos_) {
      const char flag = Peek();
      if (flag == '-') {
        spec.align = '<';
      } else if (flag == '0') {
        zero = true;
      } else if (flag == '+' || flag == ' ') {
        spec.sign = flag;
      } else if (flag == '#') {
        spec.alternate = true;
      } else {
        break;
      }
    }
    if (zero && spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
    spec.width = ParseNumber(f_, &pos_);
    if (Peek() == '.') {
      ++pos_;
      spec.precision = ParseNumber(f_, &pos_);
    }
    return spec;
  }

  Text Convert(const Value& value, Spec spec) const {
    if (spec.type == 'r' || spec.type == 's') {
      if (spec.align == '=') {  // zeros pad numbers only
        spec.fill = " ";
        spec.align = '>';
      }
      Text text =
          spec.type == 'r' ? Text(Repr(value, budget_), TagOf(value, budget_)) : ToText(value, budget_);
      return Pad(CutToPrecision(std::move(text), spec.precision), spec, '>');
    }
    if (!IsIntegerType(spec.type) && !IsFloatType(spec.type)) {
      throw Error(StrCat("unsupported format character '", spec.type, "'"));
    }
    if (!value.IsNumber()) {
      throw Error(StrCat("%", spec.type, " format: a real number is required, not ", TypeName(value)));
    }
    if (IsFloatType(spec.type)) return Pad(Text(FormatFloating(value.AsDouble(), spec)), spec, '>');
    if (value.IsFloat() && !(std::fabs(value.AsDouble()) < 9e18))
      throw Error("the number to format is too large");
    const int64_t whole = value.IsFloat() ? static_cast<int64_t>(value.AsDouble()) : value.AsInt();
    return Pad(Text(FormatInteger(whole, spec)), spec, '>');
  }

  const Text& format_;
  const std::string& f_;
  const Value& arguments_;
  Budget& budget_;
  std::vector<Value> values_;
  bool all_needed_ = true;
  size_t used_ = 0;
  size_t pos_ = 0;
};

}  // namespace

Text FormatBraces(const Text& format, const Args& args, Budget& budget) {
  const std::string& f = format.bytes();
  Text out;
  size_t next_index = 0;
  for (size_t pos = 0; pos < f.size();) {
    const size_t brace = std::min(f.find_first_of("{}", pos), f.size());
    out.AppendRange(format, pos, brace);
    if (brace == f.size()) break;
    if (brace + 1 < f.size() && f[brace + 1] == f[brace]) {
      out.AppendRange(format, brace, brace + 1);
      pos = brace + 2;
      continue;
    }
    const size_t close = f[brace] == '{' ? f.find('}', brace) : std::string::npos;
    if (close == std::string::npos) throw Error("Single '{' or '}' encountered in format string");
    std::string_view field = std::string_view(f).substr(brace + 1, close - brace - 1);
    std::string_view spec_text;
    const size_t colon = field.find(':');
    if (colon != std::string_view::npos) {
      spec_text = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    char conversion = 0;
    const size_t bang = field.find('!');
    if (bang != std::string_view::npos && bang + 2 == field.size()) {
      conversion = field[bang + 1];
      field = field.substr(0, bang);
    }
    Value value = ResolveField(field, args, &next_index);
    if (conversion == 'r') value = Value(Text(Repr(value, budget), TagOf(value, budget)));
    if (conversion == 's') value = Value(ToText(value, budget));
    out.Append(FormatValue(value, ParseSpec(spec_text), budget));
    Budget::CheckText(out.size());
    pos = close + 1;
  }
  budget.Allocate(static_cast<int64_t>(out.size()));
  return out;
}

Text FormatPercent(const Text& format, const Value& arguments, Budget& budget) {
  return PercentFormatter(format, arguments, budget).Run();
}

}  // namespace ftune::jinja
