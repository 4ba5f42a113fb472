#include "data/template/jinja_format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "data/template/jinja_unicode.h"

namespace ftune::jinja {
namespace {

// The quoted form of a Python string: single quotes unless only those occur inside.
void AppendStringRepr(std::string_view s, std::string* out) {
  const bool has_single = s.find('\'') != std::string_view::npos;
  const char quote = has_single && s.find('"') == std::string_view::npos ? '"' : '\'';
  out->push_back(quote);
  for (size_t pos = 0; pos < s.size();) {
    char32_t c;
    const size_t next = NextCodePoint(s, pos, &c);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out->push_back('\\');
      out->push_back(static_cast<char>(c));
    } else if (c == '\n') {
      out->append("\\n");
    } else if (c == '\r') {
      out->append("\\r");
    } else if (c == '\t') {
      out->append("\\t");
    } else if (IsPrintable(c)) {
      out->append(s.substr(pos, next - pos));
    } else if (c <= 0xFF) {
      absl::StrAppendFormat(out, "\\x%02x", static_cast<unsigned>(c));
    } else if (c <= 0xFFFF) {
      absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      absl::StrAppendFormat(out, "\\U%08x", static_cast<unsigned>(c));
    }
    pos = next;
  }
  out->push_back(quote);
}

class Representer {
 public:
  Representer(Budget& budget, std::string* out) : budget_(budget), out_(out) {}

  void Append(const Value& value) {
    budget_.Step();
    Budget::CheckText(out_->size());
    if (value.IsString()) {
      if (value.AsText().markup) out_->append("Markup(");
      AppendStringRepr(value.AsBytes(), out_);
      if (value.AsText().markup) out_->push_back(')');
    } else if (value.IsList()) {
      AppendList(value.AsList());
    } else if (value.IsDict()) {
      AppendDict(value.AsDict());
    } else {
      AppendScalar(value);
    }
  }

 private:
  void AppendScalar(const Value& value) {
    if (value.IsNone()) {
      out_->append("None");
    } else if (value.IsBool()) {
      out_->append(value.AsBool() ? "True" : "False");
    } else if (value.IsInt()) {
      out_->append(StrCat(value.AsInt()));
    } else if (value.IsFloat()) {
      out_->append(FloatRepr(value.AsDouble()));
    } else if (value.IsUndefined()) {
      out_->append("Undefined");
    } else if (const Loop* loop = value.GetLoop()) {
      out_->append(StrCat("<LoopContext ", loop->index0 + 1, "/", loop->items.size(), ">"));
    } else {
      // Python prints an address here; no template can depend on it.
      out_->append(StrCat("<", TypeName(value), ">"));
    }
  }

  void AppendItems(const std::vector<Value>& items) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_->append(", ");
      Append(items[i]);
    }
  }

  void AppendList(const List& list) {
    switch (list.kind) {
      case ListKind::kTuple:
        out_->push_back('(');
        AppendItems(list.items);
        out_->append(list.items.size() == 1 ? ",)" : ")");
        break;
      case ListKind::kGenerator:
        out_->append("<generator object>");
        break;
      case ListKind::kKeys:
      case ListKind::kValues:
      case ListKind::kItems:
        out_->append(StrCat(list.kind == ListKind::kKeys     ? "dict_keys(["
                            : list.kind == ListKind::kValues ? "dict_values(["
                                                             : "dict_items(["));
        AppendItems(list.items);
        out_->append("])");
        break;
      case ListKind::kRange:
        AppendRange(list.items);
        break;
      case ListKind::kList:
        out_->push_back('[');
        AppendItems(list.items);
        out_->push_back(']');
        break;
    }
  }

  void AppendRange(const std::vector<Value>& items) {
    if (items.empty()) {
      out_->append("range(0, 0)");
      return;
    }
    const int64_t first = items.front().AsInt();
    const int64_t step = items.size() > 1 ? items[1].AsInt() - first : 1;
    out_->append(StrCat("range(", first, ", ", items.back().AsInt() + step));
    if (step != 1) out_->append(StrCat(", ", step));
    out_->push_back(')');
  }

  void AppendDict(const Dict& dict) {
    out_->push_back('{');
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) out_->append(", ");
      Append(dict.entries[i].first);
      out_->append(": ");
      Append(dict.entries[i].second);
    }
    out_->push_back('}');
  }

  Budget& budget_;
  std::string* out_;
};

class JsonWriter {
 public:
  JsonWriter(const JsonOptions& options, Budget& budget, std::string* out)
      : options_(options), budget_(budget), out_(out) {}

  void Append(const Value& value, int level) {
    budget_.Step();
    Budget::CheckText(out_->size());
    if (value.IsNone()) {
      out_->append("null");
    } else if (value.IsBool()) {
      out_->append(value.AsBool() ? "true" : "false");
    } else if (value.IsInt()) {
      out_->append(StrCat(value.AsInt()));
    } else if (value.IsFloat()) {
      AppendFloat(value.AsDouble());
    } else if (value.IsString()) {
      AppendString(value.AsBytes());
    } else if (value.IsList() &&
               (value.AsList().kind == ListKind::kList || value.AsList().kind == ListKind::kTuple)) {
      AppendList(value.AsList(), level);
    } else if (value.IsDict()) {
      AppendDict(value.AsDict(), level);
    } else {
      throw Error(StrCat("Object of type ", TypeName(value), " is not JSON serializable"));
    }
  }

 private:
  void AppendFloat(double value) {
    if (std::isnan(value)) {
      out_->append("NaN");
    } else if (std::isinf(value)) {
      out_->append(value > 0 ? "Infinity" : "-Infinity");
    } else {
      out_->append(FloatRepr(value));
    }
  }

  void AppendEscapedUnit(unsigned unit) { absl::StrAppendFormat(out_, "\\u%04x", unit); }

  void AppendString(std::string_view s) {
    out_->push_back('"');
    for (size_t pos = 0; pos < s.size();) {
      char32_t c;
      const size_t next = NextCodePoint(s, pos, &c);
      switch (c) {
        case '"':
          out_->append("\\\"");
          break;
        case '\\':
          out_->append("\\\\");
          break;
        case '\n':
          out_->append("\\n");
          break;
        case '\r':
          out_->append("\\r");
          break;
        case '\t':
          out_->append("\\t");
          break;
        case '\f':
          out_->append("\\f");
          break;
        case '\b':
          out_->append("\\b");
          break;
        default:
          if (c < 0x20 || (options_.ensure_ascii && c >= 0x7F && c <= 0xFFFF && c != 0x7F)) {
            AppendEscapedUnit(c);
          } else if (options_.ensure_ascii && c > 0xFFFF) {
            AppendEscapedUnit(0xD800 + ((c - 0x10000) >> 10));
            AppendEscapedUnit(0xDC00 + ((c - 0x10000) & 0x3FF));
          } else {
            out_->append(s.substr(pos, next - pos));
          }
      }
      pos = next;
    }
    out_->push_back('"');
  }

  void NewLine(int level) {
    if (!options_.has_indent) return;
    out_->push_back('\n');
    for (int i = 0; i < level; ++i) out_->append(options_.indent);
  }

  void AppendList(const List& list, int level) {
    if (list.items.empty()) {
      out_->append("[]");
      return;
    }
    out_->push_back('[');
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out_->append(options_.item_separator);
      NewLine(level + 1);
      Append(list.items[i], level + 1);
    }
    NewLine(level);
    out_->push_back(']');
  }

  // json.dumps takes a few types besides str as keys and writes them as their JSON form, quoted.
  void AppendKey(const Value& key) {
    if (key.IsString()) {
      AppendString(key.AsBytes());
    } else if (key.IsNone() || key.IsNumber()) {
      out_->push_back('"');
      Append(key, 0);
      out_->push_back('"');
    } else {
      throw Error(StrCat("keys must be str, int, float, bool or None, not ", TypeName(key)));
    }
  }

  void AppendDict(const Dict& dict, int level) {
    if (dict.entries.empty()) {
      out_->append("{}");
      return;
    }
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& entry : dict.entries) order.push_back(&entry);
    if (options_.sort_keys) {
      std::stable_sort(order.begin(), order.end(),
                       [&](const auto* a, const auto* b) { return Less(a->first, b->first, budget_); });
    }
    out_->push_back('{');
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out_->append(options_.item_separator);
      NewLine(level + 1);
      AppendKey(order[i]->first);
      out_->append(options_.key_separator);
      Append(order[i]->second, level + 1);
    }
    NewLine(level);
    out_->push_back('}');
  }

  const JsonOptions& options_;
  Budget& budget_;
  std::string* out_;
};

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // The shortest digits that read back as the same number, which Python lays out by its own rule: an exponent
  // below 1e-4 and from 1e16.
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, end - buffer);
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t exponent_at = e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(text.data() + exponent_at, text.data() + text.size(), exponent);
  std::string digits;
  for (char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  std::string out = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    absl::StrAppendFormat(&out, "e%c%02d", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (exponent < 0) {
    out += "0." + std::string(-exponent - 1, '0') + digits;
  } else {
    const size_t whole = static_cast<size_t>(exponent) + 1;
    if (digits.size() < whole) digits.append(whole - digits.size(), '0');
    const std::string fraction = digits.substr(whole);
    out += digits.substr(0, whole) + "." + (fraction.empty() ? "0" : fraction);
  }
  return out;
}

std::string Repr(const Value& value, Budget& budget) {
  std::string out;
  Representer(budget, &out).Append(value);
  budget.Allocate(static_cast<int64_t>(out.size()));
  return out;
}

Tag TagOf(const Value& value, Budget& budget) {
  budget.Step();
  if (value.IsString()) return value.AsText().Merged();
  Tag tag;
  if (value.IsList()) {
    tag = value.AsList().tag;
    if (tag.source >= 0) return tag;
    for (const Value& item : value.AsList().items) tag = MergeTags(tag, TagOf(item, budget));
  } else if (value.IsDict()) {
    tag = value.AsDict().tag;
    if (tag.source >= 0) return tag;
    for (const auto& entry : value.AsDict().entries) tag = MergeTags(tag, TagOf(entry.second, budget));
  }
  return tag;
}

Text ToText(const Value& value, Budget& budget) {
  if (value.IsString()) return value.AsText();
  if (value.IsUndefined()) return Text();
  return Text(Repr(value, budget), TagOf(value, budget));
}

std::string ToJson(const Value& value, const JsonOptions& options, Budget& budget) {
  std::string out;
  JsonWriter(options, budget, &out).Append(value, 0);
  budget.Allocate(static_cast<int64_t>(out.size()));
  return out;
}

}  // namespace ftune::jinja
