#include "data/tokenizer/character_set.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cstdint>

#include "base/strings.h"

namespace ftune {
namespace {

constexpr std::string_view kAny = "(?s:.)";
// Unicode's White_Space. PCRE2's own \s has U+180E too.
constexpr std::string_view kSpace =
    R"(\t-\r\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x{0}-\x{8}\x{E}-\x{1F}\x{21}-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";
constexpr std::string_view kHex = "0-9A-Fa-f";
constexpr std::string_view kNotHex = R"(\x{0}-\x{2F}\x{3A}-\x{40}\x{47}-\x{60}\x{67}-\x{10FFFF})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Outside of brackets Oniguruma looks characters up to U+00FF up in a table, in which these are words, too.
constexpr std::string_view kLoneWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{B2}\x{B3}\x{B9}\x{BC}-\x{BE})";

struct NamedSet {
  std::string_view name;   // lower case, without spaces, '_' and '-'
  std::string_view items;  // between brackets
};
// Names that PCRE2 lacks.
constexpr NamedSet kNamedSets[] = {
    {"letter", R"(\p{L})"},
    {"casedletter", R"(\p{L&})"},
    {"lc", R"(\p{L&})"},
    {"uppercaseletter", R"(\p{Lu})"},
    {"lowercaseletter", R"(\p{Ll})"},
    {"titlecaseletter", R"(\p{Lt})"},
    {"modifierletter", R"(\p{Lm})"},
    {"otherletter", R"(\p{Lo})"},
    {"mark", R"(\p{M})"},
    {"combiningmark", R"(\p{M})"},
    {"nonspacingmark", R"(\p{Mn})"},
    {"spacingmark", R"(\p{Mc})"},
    {"enclosingmark", R"(\p{Me})"},
    {"number", R"(\p{N})"},
    {"decimalnumber", R"(\p{Nd})"},
    {"digit", R"(\p{Nd})"},
    {"letternumber", R"(\p{Nl})"},
    {"othernumber", R"(\p{No})"},
    {"punctuation", R"(\p{P})"},
    {"punct", R"(\p{P})"},
    {"connectorpunctuation", R"(\p{Pc})"},
    {"dashpunctuation", R"(\p{Pd})"},
    {"openpunctuation", R"(\p{Ps})"},
    {"closepunctuation", R"(\p{Pe})"},
    {"initialpunctuation", R"(\p{Pi})"},
    {"finalpunctuation", R"(\p{Pf})"},
    {"otherpunctuation", R"(\p{Po})"},
    {"symbol", R"(\p{S})"},
    {"mathsymbol", R"(\p{Sm})"},
    {"currencysymbol", R"(\p{Sc})"},
    {"modifiersymbol", R"(\p{Sk})"},
    {"othersymbol", R"(\p{So})"},
    {"separator", R"(\p{Z})"},
    {"spaceseparator", R"(\p{Zs})"},
    {"lineseparator", R"(\p{Zl})"},
    {"paragraphseparator", R"(\p{Zp})"},
    {"other", R"(\p{C})"},
    {"control", R"(\p{Cc})"},
    {"cntrl", R"(\p{Cc})"},
    {"format", R"(\p{Cf})"},
    {"privateuse", R"(\p{Co})"},
    {"surrogate", R"(\p{Cs})"},
    {"unassigned", R"(\p{Cn})"},
    {"alpha", R"(\p{Alphabetic})"},
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"upper", R"(\p{Uppercase})"},
    {"lower", R"(\p{Lowercase})"},
    {"blank", R"(\p{Zs}\t)"},
    {"space", kSpace},
    {"whitespace", kSpace},
    {"word", kWord},
    {"xdigit", kHex},
    {"ascii", R"(\x{0}-\x{7F})"},
};

// `items`, or a set of all others.
void AddItems(CharacterSet& set, std::string_view items, bool negated) {
  if (!negated) {
    set.AddItem(items);
  } else {
    set.AddNested(StrCat("[^", items, "]"));
  }
}

}  // namespace

std::string CharacterItem(char32_t c) {
  if (c < 0x80 && ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))) {
    return std::string(1, static_cast<char>(c));
  }
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof(digits), static_cast<uint32_t>(c), 16).ptr;
  return StrCat("\\x{", std::string_view(digits, end - digits), "}");
}

std::string CharacterSet::TermPattern(const Union& term) {
  std::vector<std::string> alternatives = term.nested;
  if (!term.items.empty()) alternatives.insert(alternatives.begin(), StrCat("[", term.items, "]"));
  if (alternatives.empty()) return "(?!)";
  if (alternatives.size() == 1) return alternatives[0];
  return StrCat("(?:", StrJoin(alternatives, "|"), ")");
}

std::string CharacterSet::Pattern() const {
  if (terms_.size() == 1 && terms_[0].nested.empty() && !terms_[0].items.empty()) {
    return StrCat(negated_ ? "[^" : "[", terms_[0].items, "]");
  }
  std::string body;
  for (size_t i = 0; i + 1 < terms_.size(); ++i) StrAppend(body, "(?=", TermPattern(terms_[i]), ")");
  body += TermPattern(terms_.back());
  if (negated_) return StrCat("(?:(?!", body, ")", kAny, ")");
  return StrCat("(?:", body, ")");
}

void AddProperty(CharacterSet& set, std::string_view name, bool negated) {
  if (name.starts_with('^')) {
    name.remove_prefix(1);
    negated = !negated;
  }
  std::string key = Lower(name);
  std::erase_if(key, [](char c) { return c == ' ' || c == '_' || c == '-'; });
  const auto* known = std::find_if(std::begin(kNamedSets), std::end(kNamedSets),
                                   [&](const NamedSet& entry) { return entry.name == key; });
  if (known != std::end(kNamedSets)) return AddItems(set, known->items, negated);
  // Of a script's name alone, PCRE2 takes characters that are used with the script, too.
  const bool script =
      key.size() > 2 && u_getPropertyValueEnum(UCHAR_SCRIPT, key.c_str()) != UCHAR_INVALID_CODE;
  set.AddItem(StrCat(negated ? "\\P{" : "\\p{", script ? "sc:" : "", name, "}"));
}

void AddPosixBracket(CharacterSet& set, std::string_view name) {
  const bool negated = name.starts_with('^');
  if (name.substr(negated) == "punct") return AddItems(set, R"(\p{P}\p{S})", negated);
  AddProperty(set, name, false);
}

void AddShorthand(CharacterSet& set, char kind) {
  switch (kind) {
    case 's':
      return set.AddItem(kSpace);
    case 'S':
      return set.AddItem(kNotSpace);
    case 'h':
      return set.AddItem(kHex);
    case 'H':
      return set.AddItem(kNotHex);
    case 'd':
      return set.AddItem(R"(\p{Nd})");
    case 'D':
      return set.AddItem(R"(\P{Nd})");
    case 'w':
      return AddItems(set, kWord, false);
    default:
      return AddItems(set, kWord, true);
  }
}

std::string ShorthandPattern(char kind) {
  CharacterSet set;
  if (kind == 'w' || kind == 'W') {
    AddItems(set, kLoneWord, kind == 'W');
  } else {
    AddShorthand(set, kind);
  }
  return set.Pattern();
}

}  // namespace ftune
