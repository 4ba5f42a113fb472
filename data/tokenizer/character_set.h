// A set of characters of a regular expression, built up from parts and written in PCRE2's syntax, which
// (before 10.45) has neither sets within sets nor intersections.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ftune {

class CharacterSet {
 public:
  void set_negated(bool negated) { negated_ = negated; }
  // What may stand between PCRE2's brackets: "a-z", "\p{L}".
  void AddItem(std::string_view item) { terms_.back().items.append(item); }
  // An expression that matches one character.
  void AddNested(std::string expression) { terms_.back().nested.push_back(std::move(expression)); }
  // What is added from here on is intersected with what was before.
  void Intersect() { terms_.emplace_back(); }

  // An expression that matches one character, and is an atom: a quantifier behind it applies to all of it.
  std::string Pattern() const;

 private:
  struct Union {
    std::string items;
    std::vector<std::string> nested;
  };
  static std::string TermPattern(const Union& term);

  bool negated_ = false;
  std::vector<Union> terms_{1};
};

// One character as it may stand anywhere in a PCRE2 pattern, between brackets too.
std::string CharacterItem(char32_t c);

// A named class of Oniguruma ("Lu", "Letter", "Han", "alnum", "^Lu", …), as an item or, where it is none,
// nested.
void AddProperty(CharacterSet& set, std::string_view name, bool negated);

// [:alnum:], [:^alnum:] …: of the same names, punct is more than \p{Punct}.
void AddPosixBracket(CharacterSet& set, std::string_view name);

// \s, \w, \d, \h and their complements (upper-case `kind`), between brackets.
void AddShorthand(CharacterSet& set, char kind);
// The same, outside of brackets.
std::string ShorthandPattern(char kind);

}  // namespace ftune
