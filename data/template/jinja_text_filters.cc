// Filters that make texts and numbers, after jinja2/filters.py; `tojson` is transformers' own (no HTML
// escaping).
#include <algorithm>
#include <charconv>
#include <cmath>
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

// soft_str: a string stays what it is (marked safe or not), anything else is printed.
Text SoftStr(Interpreter& in, const Value& value) { return in.ToStr(value); }

template <std::string (*mapping)(std::string_view)>
Value CaseFilter(Interpreter& in, const Value& value, Args& args) {
  ArgReader("this filter", args, {});
  return in.Make(MapBytes(SoftStr(in, value), mapping));
}

// Jinja's own title case: letters after blanks, hyphens and opening brackets.
std::string TitleWords(std::string_view s) {
  std::string out;
  size_t word = 0;
  const auto flush = [&](size_t end) {
    if (end <= word) return;
    char32_t c;
    const size_t first = NextCodePoint(s, word, &c);
    out += ToUpper(s.substr(word, first - word));
    out += ToLower(s.substr(first, end - first));
  };
  for (size_t pos = 0; pos < s.size();) {
    char32_t c;
    const size_t next = NextCodePoint(s, pos, &c);
    if (c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || IsSpace(c)) {
      flush(pos);
      out.append(s.substr(pos, next - pos));
      word = next;
    }
    pos = next;
  }
  flush(s.size());
  return out;
}

Value Trim(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'trim'", args, {"chars"});
  const auto characters =
      reader.Get(0) == nullptr ? std::nullopt : std::optional<std::string>(reader.String(0).bytes());
  return in.Make(Strip(SoftStr(in, value), Side::kBoth, characters));
}

Value StringFilter(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'string'", args, {});
  return in.Make(SoftStr(in, value));
}

Value ReplaceFilter(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'replace'", args, {"old", "new", "count"}, 2);
  const Text from = in.ToStr(reader.Required(0));
  return in.Make(Replace(in.ToStr(value), from.bytes(), in.ToStr(reader.Required(1)), reader.Int(2, -1)));
}

Value Indent(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'indent'", args, {"width", "first", "blank"});
  if (!value.IsString()) throw Error(StrCat("filter 'indent' needs a string, not ", TypeName(value)));
  Text indention;
  if (reader.Get(0) != nullptr && reader.Get(0)->IsString()) {
    indention = reader.String(0);
  } else {
    const int64_t width = std::max<int64_t>(0, reader.Int(0, 4));
    Budget::CheckText(width);
    indention = Text(std::string(width, ' '));
  }
  const bool indent_blank = reader.Bool(2, false);
  Text text = value.AsText();
  text.Append("\n");  // so that a last line end counts as a line
  const std::vector<Text> lines = SplitLines(text, false);
  Text out;
  if (reader.Bool(1, false)) out.Append(indention);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out.Append("\n");
      if (indent_blank || !lines[i].empty()) out.Append(indention);
    }
    out.Append(lines[i]);
    Budget::CheckText(out.size());
  }
  return in.Make(std::move(out));
}

Value Center(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'center'", args, {"width"});
  Args method_args;
  method_args.positional.push_back(Value(reader.Int(0, 80)));
  return in.Call(*FindStringMethod(Value(SoftStr(in, value)), "center"), method_args);
}

Value Truncate(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'truncate'", args, {"length", "killwords", "end", "leeway"});
  const int64_t length = reader.Int(0, 255);
  const Text end = reader.Given(2) ? reader.String(2) : Text("...");
  const int64_t leeway = reader.Int(3, 5);
  const int64_t keep = length - static_cast<int64_t>(CountCodePoints(end.bytes()));
  if (keep < 0 || leeway < 0) throw Error("filter 'truncate': the length is shorter than its end mark");
  const Text text = in.ToStr(value);
  if (static_cast<int64_t>(CountCodePoints(text.bytes())) <= length + leeway) return value;
  Text out = text.Range(0, OffsetOfCodePoint(text.bytes(), keep));
  if (!reader.Bool(1, false)) out = Split(out, " ", 1, true)[0];
  out.Append(end);
  return in.Make(std::move(out));
}

Value WordCount(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'wordcount'", args, {});
  const Text text = in.ToStr(value);
  int64_t words = 0;
  bool inside = false;
  for (size_t pos = 0; pos < text.size();) {
    char32_t c;
    pos = NextCodePoint(text.bytes(), pos, &c);
    const bool part = IsAlpha(c) || IsDecimal(c) || c == '_';
    if (part && !inside) ++words;
    inside = part;
  }
  return Value(words);
}

Value Safe(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'safe'", args, {});
  Text text = in.ToStr(value);
  text.markup = true;
  return in.Make(std::move(text));
}

Value Escape(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'escape'", args, {});
  Text text = in.ToStr(value);
  return in.Make(text.markup ? std::move(text) : EscapeHtml(text));
}

Value ForceEscape(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'forceescape'", args, {});
  return in.Make(EscapeHtml(in.ToStr(value)));
}

Value FormatFilter(Interpreter& in, const Value& value, Args& args) {
  if (!args.positional.empty() && !args.named.empty()) {
    throw Error("can't handle positional and keyword arguments at the same time");
  }
  Value arguments;
  if (args.named.empty()) {
    arguments = MakeList(ListKind::kTuple, args.positional);
  } else {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [name, argument] : args.named) entries.emplace_back(Value::String(name), argument);
    arguments = MakeDict(std::move(entries));
  }
  return in.Make(FormatPercent(SoftStr(in, value), arguments, in.budget()));
}

Value UrlEncode(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'urlencode'", args, {});
  const auto quote = [&](const Value& part, bool in_query) {
    const Text text = in.ToStr(part);
    std::string out;
    for (const char c : text.bytes()) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                         c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !in_query);
      static constexpr char kHex[] = "0123456789ABCDEF";
      if (plain) {
        out.push_back(c);
      } else if (c == ' ' && in_query) {
        out.push_back('+');
      } else {
        out += {'%', kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 15]};
      }
    }
    return Text(std::move(out), text.Merged());
  };
  if (!value.IsDict()) return in.Make(quote(value, false));
  Text out;
  for (const auto& [key, held] : value.AsDict().entries) {
    if (!out.empty()) out.Append("&");
    out.Append(quote(key, true));
    out.Append("=");
    out.Append(quote(held, true));
  }
  return in.Make(std::move(out));
}

std::string SeparatorAt(const Value& separators, size_t index, Interpreter& in) {
  const std::vector<Value> both = Iterate(separators, in.budget());
  if (both.size() != 2 || !both[index].IsString()) {
    throw Error("filter 'tojson': separators must be a pair of strings");
  }
  return both[index].AsBytes();
}

Value ToJsonFilter(Interpreter& in, const Value& value, Args& args) {
  const ArgReader reader("filter 'tojson'", args, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonOptions options;
  options.ensure_ascii = reader.Bool(0, false);
  options.sort_keys = reader.Bool(3, false);
  if (const Value* indent = reader.Get(1)) {
    options.has_indent = true;
    options.item_separator = ",";
    if (indent->IsString()) {
      options.indent = indent->AsBytes();
    } else {
      options.indent = std::string(std::clamp<int64_t>(reader.Int(1, 0), 0, 1000), ' ');
    }
  }
  if (const Value* separators = reader.Get(2)) {
    options.item_separator = SeparatorAt(*separators, 0, in);
    options.key_separator = SeparatorAt(*separators, 1, in);
  }
  return in.Make(Text(ToJson(value, options, in.budget()), TagOf(value, in.budget())));
}

// Reads a whole string as Python's int() and float() do: blanks around it and underscores between digits are
// fine.
std::optional<double> ParseDouble(std::string_view s) {
  const std::string text = Strip(Text(std::string(s)), Side::kBoth, std::nullopt).bytes();
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') plain.push_back(text[i]);
  }
  const std::string lower = ToLower(plain);
  const std::string_view unsigned_part =
      std::string_view(lower).substr(!lower.empty() && (lower[0] == '-' || lower[0] == '+') ? 1 : 0);
  if (unsigned_part == "inf" || unsigned_part == "infinity") return lower[0] == '-' ? -INFINITY : INFINITY;
  if (unsigned_part == "nan") return NAN;
  const char* begin = lower.data() + (lower.starts_with("+") ? 1 : 0);
  const char* end = lower.data() + lower.size();
  if (begin == end || (*begin != '-' && *begin != '.' && (*begin < '0' || *begin > '9'))) return std::nullopt;
  double value = 0;
  const auto [parsed, error] = std::from_chars(begin, end, value);
  if (parsed != end || error != std::errc()) return std::nullopt;
  return value;
}

std::optional<int64_t> ParseInt(std::string_view s, int base) {
  std::string text = ToLower(Strip(Text(std::string(s)), Side::kBoth, std::nullopt).bytes());
  std::erase(text, '_');
  const bool negative = text.starts_with("-");
  if (negative || text.starts_with("+")) text.erase(0, 1);
  const std::string_view prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
  if (!prefix.empty() && text.starts_with(prefix)) text.erase(0, 2);
  int64_t value = 0;
  if (text.empty() || text[0] == '-') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (end != text.data() + text.size() || error != std::errc()) return std::nullopt;
  return negative ? -value : value;
}

std::optional<int64_t> Truncated(double value) {
  if (!(std::fabs(value) < 9.2e18)) return std::nullopt;
  return static_cast<int64_t>(value);
}

Value IntFilter(Interpreter&, const Value& value, Args& args) {
  const ArgReader reader("filter 'int'", args, {"default", "base"});
  const int64_t base = reader.Int(1, 10);
  if (base < 2 || base > 36) throw Error("filter 'int': base must be between 2 and 36");
  if (value.IsUndefined()) throw Error(value.AsUndefined().message);
  std::optional<int64_t> result;
  if (value.IsIntegral()) {
    result = value.AsInt();
  } else if (value.IsFloat()) {
    result = Truncated(value.AsDouble());
  } else if (value.IsString()) {
    result = ParseInt(value.AsBytes(), static_cast<int>(base));
    if (!result.has_value()) {
      if (const std::optional<double> number = ParseDouble(value.AsBytes())) result = Truncated(*number);
    }
  }
  if (result.has_value()) return Value(*result);
  return reader.Given(0) ? reader.Required(0) : Value(int64_t{0});
}

Value FloatFilter(Interpreter&, const Value& value, Args& args) {
  const ArgReader reader("filter 'float'", args, {"default"});
  if (value.IsUndefined()) throw Error(value.AsUndefined().message);
  if (value.IsNumber()) return Value(value.AsDouble());
  if (value.IsString()) {
    if (const std::optional<double> number = ParseDouble(value.AsBytes())) return Value(*number);
  }
  return reader.Given(0) ? reader.Required(0) : Value(0.0);
}

Value Abs(Interpreter& in, const Value& value, Args& args) {
  ArgReader("filter 'abs'", args, {});
  if (value.IsFloat()) return Value(std::fabs(value.AsDouble()));
  return Less(value, Value(int64_t{0}), in.budget()) ? Negate(value) : Plus(value);
}

// round(value, precision) of Python: the decimal digits of the exact value, ties to even.
double RoundTo(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < -300) return std::copysign(0.0, value);
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    return std::nearbyint(value / scale) * scale;
  }
  char buffer[800];
  const auto printed = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed,
                                     static_cast<int>(precision));
  double rounded = value;
  std::from_chars(buffer, printed.ptr, rounded);
  return rounded;
}

Value Round(Interpreter&, const Value& value, Args& args) {
  const ArgReader reader("filter 'round'", args, {"precision", "method"});
  const int64_t precision = reader.Int(0, 0);
  const std::string method = reader.Given(1) ? reader.String(1).bytes() : "common";
  if (!value.IsNumber()) throw Error(StrCat("filter 'round' needs a number, not ", TypeName(value)));
  if (method == "common") {
    if (value.IsIntegral() && precision >= 0) return Value(value.AsInt());
    const double rounded = RoundTo(value.AsDouble(), precision);
    return value.IsIntegral() ? Value(Truncated(rounded).value_or(0)) : Value(rounded);
  }
  if (method != "ceil" && method != "floor") throw Error("method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.AsDouble() * scale;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
    {"abs", Abs},
    {"capitalize", CaseFilter<ToCapitalized>},
    {"center", Center},
    {"e", Escape},
    {"escape", Escape},
    {"float", FloatFilter},
    {"forceescape", ForceEscape},
    {"format", FormatFilter},
    {"indent", Indent},
    {"int", IntFilter},
    {"lower", CaseFilter<ToLower>},
    {"replace", ReplaceFilter},
    {"round", Round},
    {"safe", Safe},
    {"string", StringFilter},
    {"title", CaseFilter<TitleWords>},
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", CaseFilter<ToUpper>},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount},
};

}  // namespace

FilterFunction FindTextFilter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [&](const auto& filter) { return filter.first == name; });
  return found == std::end(kFilters) ? nullptr : found->second;
}

FilterFunction FindFilter(std::string_view name) {
  const FilterFunction filter = FindTextFilter(name);
  return filter != nullptr ? filter : FindSequenceFilter(name);
}

}  // namespace ftune::jinja
