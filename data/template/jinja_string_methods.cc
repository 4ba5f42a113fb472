// Methods of strings.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "data/template/jinja_args.h"
#include "data/template/jinja_builtins.h"
#include "data/template/jinja_format.h"
#include "data/template/jinja_strings.h"
#include "data/template/jinja_unicode.h"

namespace ftune::jinja {
namespace {

using TextMethod = Value (*)(Interpreter& in, const Text& self, Args& args);

Value MakeTextList(Interpreter& in, std::vector<Text> parts, ListKind kind = ListKind::kList) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (Text& part : parts) items.push_back(in.Make(std::move(part)));
  return MakeList(kind, std::move(items));
}

std::optional<std::string> OptionalString(const ArgReader& reader, size_t index) {
  return reader.Get(index) == nullptr ? std::nullopt
                                      : std::optional<std::string>(reader.String(index).bytes());
}

template <Side side>
Value StripMethod(Interpreter& in, const Text& self, Args& args) {
  const ArgReader reader("strip", args, {"chars"});
  return in.Make(Strip(self, side, OptionalString(reader, 0)));
}

template <bool from_right>
Value SplitMethod(Interpreter& in, const Text& self, Args& args) {
  const ArgReader reader("split", args, {"sep", "maxsplit"});
  const std::optional<std::string> separator = OptionalString(reader, 0);
  if (separator.has_value() && separator->empty()) throw Error("empty separator");
  return MakeTextList(in, Split(self, separator, reader.Int(1, -1), from_right));
}

Value SplitLinesMethod(Interpreter& in, const Text& self, Args& args) {
  return MakeTextList(in, SplitLines(self, ArgReader("splitlines", args, {"keepends"}).Bool(0, false)));
}

template <bool from_right>
Value PartitionMethod(Interpreter& in, const Text& self, Args& args) {
  const Text& separator = ArgReader("partition", args, {"sep"}, 1).String(0);
  if (separator.empty()) throw Error("empty separator");
  const size_t at =
      from_right ? FindLastText(self.bytes(), separator.bytes()) : FindText(self.bytes(), separator.bytes());
  std::vector<Text> parts;
  if (at == std::string::npos) {
    parts = from_right ? std::vector<Text>{Text(), Text(), self} : std::vector<Text>{self, Text(), Text()};
  } else {
    parts = {self.Range(0, at), separator, self.Range(at + separator.size(), self.size())};
  }
  return MakeTextList(in, std::move(parts), ListKind::kTuple);
}

// The text between code points `begin` and `end` as Python's optional arguments of find, count, … give them.
Text Window(const Text& self, const ArgReader& reader, size_t* begin_offset) {
  const auto length = static_cast<int64_t>(CountCodePoints(self.bytes()));
  const auto clamp = [&](int64_t index) {
    return std::clamp(index < 0 ? index + length : index, int64_t{0}, length);
  };
  const int64_t begin = clamp(reader.Int(1, 0));
  const int64_t end = std::max(begin, clamp(reader.Int(2, length)));
  *begin_offset = OffsetOfCodePoint(self.bytes(), begin);
  return self.Range(*begin_offset, OffsetOfCodePoint(self.bytes(), end));
}

template <bool from_right, bool must_find>
Value IndexMethod(Interpreter&, const Text& self, Args& args) {
  const ArgReader reader("find", args, {"sub", "start", "end"}, 1);
  size_t begin = 0;
  const Text window = Window(self, reader, &begin);
  const std::string& needle = reader.String(0).bytes();
  const size_t at = from_right ? FindLastText(window.bytes(), needle) : FindText(window.bytes(), needle);
  if (at == std::string::npos) {
    if (must_find) throw Error("substring not found");
    return Value(int64_t{-1});
  }
  return Value(static_cast<int64_t>(CountCodePoints(std::string_view(self.bytes()).substr(0, begin + at))));
}

Value CountMethod(Interpreter&, const Text& self, Args& args) {
  const ArgReader reader("count", args, {"sub", "start", "end"}, 1);
  size_t begin = 0;
  const Text window = Window(self, reader, &begin);
  const std::string& needle = reader.String(0).bytes();
  if (needle.empty()) return Value(static_cast<int64_t>(CountCodePoints(window.bytes())) + 1);
  return Value(static_cast<int64_t>(Split(window, needle, -1, false).size()) - 1);
}

template <bool at_end>
Value AffixMethod(Interpreter& in, const Text& self, Args& args) {
  const ArgReader reader(at_end ? "endswith" : "startswith", args, {"prefix", "start", "end"}, 1);
  size_t begin = 0;
  const Text window = Window(self, reader, &begin);
  const auto matches = [&](const Value& affix) {
    if (!affix.IsString()) {
      throw Error(StrCat(at_end ? "endswith" : "startswith", " first arg must be str or a tuple of str, not ",
                         TypeName(affix)));
    }
    return at_end ? window.bytes().ends_with(affix.AsBytes()) : window.bytes().starts_with(affix.AsBytes());
  };
  const Value& affix = reader.Required(0);
  if (!affix.IsList() || affix.AsList().kind != ListKind::kTuple) return Value(matches(affix));
  in.budget().Step(static_cast<int64_t>(affix.AsList().items.size()));
  return Value(std::any_of(affix.AsList().items.begin(), affix.AsList().items.end(), matches));
}

template <bool at_end>
Value RemoveAffixMethod(Interpreter& in, const Text& self, Args& args) {
  const std::string& affix = ArgReader("removeprefix", args, {"prefix"}, 1).String(0).bytes();
  const bool present = at_end ? self.bytes().ends_with(affix) : self.bytes().starts_with(affix);
  if (!present) return Value(self);
  return in.Make(at_end ? self.Range(0, self.size() - affix.size()) : self.Range(affix.size(), self.size()));
}

Value ReplaceMethod(Interpreter& in, const Text& self, Args& args) {
  const ArgReader reader("replace", args, {"old", "new", "count"}, 2);
  return in.Make(Replace(self, reader.String(0).bytes(), reader.String(1), reader.Int(2, -1)));
}

Value JoinMethod(Interpreter& in, const Text& self, Args& args) {
  const ArgReader reader("join", args, {"iterable"}, 1);
  std::vector<Text> parts;
  size_t size = 0;
  for (const Value& item : Iterate(reader.Required(0), in.budget())) {
    if (!item.IsString()) {
      throw Error(
          StrCat("sequence item ", parts.size(), ": expected str instance, ", TypeName(item), " found"));
    }
    Budget::CheckText(size += item.AsBytes().size());
    parts.push_back(item.AsText());
  }
  return in.Make(Join(self, parts));
}

Value FormatMethod(Interpreter& in, const Text& self, Args& args) {
  return in.Make(FormatBraces(self, args, in.budget()));
}

template <std::string (*mapping)(std::string_view)>
Value CaseMethod(Interpreter& in, const Text& self, Args& args) {
  ArgReader("this method", args, {});
  return in.Make(MapBytes(self, mapping));
}

std::string SwapCase(std::string_view s) {
  std::string out;
  for (size_t pos = 0; pos < s.size();) {
    char32_t c;
    const size_t next = NextCodePoint(s, pos, &c);
    const std::string_view letter = s.substr(pos, next - pos);
    out += IsUpper(c) ? ToLower(letter) : ToUpper(letter);
    pos = next;
  }
  return out;
}

// Python's predicates hold for no empty text.
template <bool (*Predicate)(char32_t)>
Value AllMethod(Interpreter&, const Text& self, Args& args) {
  ArgReader("this method", args, {});
  bool all = !self.empty();
  for (size_t pos = 0; pos < self.size() && all;) {
    char32_t c;
    pos = NextCodePoint(self.bytes(), pos, &c);
    all = Predicate(c);
  }
  return Value(all);
}

bool IsAlnum(char32_t c) { return IsAlpha(c) || IsDecimal(c); }

template <bool upper>
Value HasCaseMethod(Interpreter& in, const Text& self, Args& args) {
  return Value(FindTest(upper ? "upper" : "lower")(in, Value(self), args));
}

// ljust, rjust, center and zfill: `left_of` gives how much of the padding goes left.
Value Padded(Interpreter& in, const Text& self, int64_t width, const Text& fill,
             int64_t (*left_of)(int64_t, int64_t)) {
  if (CountCodePoints(fill.bytes()) != 1)
    throw Error("The fill character must be exactly one character long");
  const int64_t missing = width - static_cast<int64_t>(CountCodePoints(self.bytes()));
  if (missing <= 0) return Value(self);
  Budget::CheckText(missing);
  const int64_t left = left_of(missing, width);
  std::string padding;
  for (int64_t i = 0; i < left; ++i) padding += fill.bytes();
  Text out;
  out.Append(padding);
  out.Append(self);
  padding.clear();
  for (int64_t i = left; i < missing; ++i) padding += fill.bytes();
  out.Append(padding);
  return in.Make(std::move(out));
}

template <int64_t (*left_of)(int64_t, int64_t)>
Value JustifyMethod(Interpreter& in, const Text& self, Args& args) {
  const ArgReader reader("this method", args, {"width", "fillchar"}, 1);
  return Padded(in, self, reader.Int(0, 0), reader.Given(1) ? reader.String(1) : Text(" "), left_of);
}

int64_t PadRight(int64_t, int64_t) { return 0; }
int64_t PadLeft(int64_t missing, int64_t) { return missing; }
// CPython puts the odd blank left where the width is odd.
int64_t PadBoth(int64_t missing, int64_t width) { return missing / 2 + (missing & width & 1); }

Value ZeroFillMethod(Interpreter& in, const Text& self, Args& args) {
  const int64_t width = ArgReader("zfill", args, {"width"}, 1).Int(0, 0);
  const bool sign = !self.empty() && (self.bytes()[0] == '-' || self.bytes()[0] == '+');
  if (!sign) return Padded(in, self, width, Text("0"), PadLeft);
  Text out = self.Range(0, 1);
  out.Append(in.ToStr(Padded(in, self.Range(1, self.size()), width - 1, Text("0"), PadLeft)));
  return in.Make(std::move(out));
}

constexpr std::pair<std::string_view, TextMethod> kTextMethods[] = {
    {"capitalize", CaseMethod<ToCapitalized>},
    {"casefold", CaseMethod<FoldCase>},
    {"center", JustifyMethod<PadBoth>},
    {"count", CountMethod},
    {"endswith", AffixMethod<true>},
    {"find", IndexMethod<false, false>},
    {"format", FormatMethod},
    {"index", IndexMethod<false, true>},
    {"isalnum", AllMethod<IsAlnum>},
    {"isalpha", AllMethod<IsAlpha>},
    {"isdecimal", AllMethod<IsDecimal>},
    {"isdigit", AllMethod<IsDecimal>},
    {"islower", HasCaseMethod<false>},
    {"isnumeric", AllMethod<IsDecimal>},
    {"isspace", AllMethod<IsSpace>},
    {"isupper", HasCaseMethod<true>},
    {"join", JoinMethod},
    {"ljust", JustifyMethod<PadRight>},
    {"lower", CaseMethod<ToLower>},
    {"lstrip", StripMethod<Side::kLeft>},
    {"partition", PartitionMethod<false>},
    {"removeprefix", RemoveAffixMethod<false>},
    {"removesuffix", RemoveAffixMethod<true>},
    {"replace", ReplaceMethod},
    {"rfind", IndexMethod<true, false>},
    {"rindex", IndexMethod<true, true>},
    {"rjust", JustifyMethod<PadLeft>},
    {"rpartition", PartitionMethod<true>},
    {"rsplit", SplitMethod<true>},
    {"rstrip", StripMethod<Side::kRight>},
    {"split", SplitMethod<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", AffixMethod<false>},
    {"strip", StripMethod<Side::kBoth>},
    {"swapcase", CaseMethod<SwapCase>},
    {"title", CaseMethod<ToTitle>},
    {"upper", CaseMethod<ToUpper>},
    {"zfill", ZeroFillMethod},
};

}  // namespace

std::optional<Value> FindStringMethod(const Value& self, std::string_view name) {
  const auto* found = std::find_if(std::begin(kTextMethods), std::end(kTextMethods),
                                   [&](const auto& method) { return method.first == name; });
  if (found == std::end(kTextMethods)) return std::nullopt;
  auto callable = std::make_shared<Callable>();
  callable->name = std::string(name);
  callable->call = [self, method = found->second](Interpreter& in, Args& args) {
    in.budget().Read(self.AsBytes().size());
    for (const Value& argument : args.positional) {
      if (argument.IsString()) in.budget().Read(argument.AsBytes().size());
    }
    return method(in, self.AsText(), args);
  };
  return Value(CallablePtr(std::move(callable)));
}

}  // namespace ftune::jinja
