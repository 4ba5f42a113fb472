#include "data/tokenizer/oniguruma.h"

#include <optional>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "data/tokenizer/character_set.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

constexpr int kMaxDepth = 100;
constexpr std::string_view kShorthands = "sSwWdDhH";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Reads the pattern once, from left to right, writing the translation.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Run() {
    groups_.push_back({});
    while (at_ < in_.size()) FTUNE_RETURN_IF_ERROR(Element());
    if (groups_.size() != 1) return Unsupported("a group that is not closed", in_.size());
    out_.append(groups_.back().scoped_options, ')');
    return out_;
  }

 private:
  struct Group {
    size_t start = 0;        // of the group in out_
    int scoped_options = 0;  // groups opened for (?i) without a body, to be closed with this one
  };

  absl::Status Unsupported(std::string_view what, size_t position) const {
    return DataError({.message = StrCat("the regular expression has ", what, " at byte ", position,
                                        ", which is not supported"),
                      .found = std::string(in_)});
  }
  bool Next(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  absl::Status Element() {
    const char c = in_[at_];
    switch (c) {
      case '\\':
        return Escape();
      case '[':
        return Set();
      case '(':
        return Open();
      case ')':
        return Close();
      case '|':
        ++at_;
        out_.push_back('|');
        atom_.reset();
        return absl::OkStatus();
      case '*':
      case '+':
      case '?':
        return Quantifier();
      case '{':
        return Interval();
      default: {
        const size_t length = Utf8Length(c);
        Atom(in_.substr(at_, length));
        at_ += length;
        return absl::OkStatus();
      }
    }
  }

  void Atom(std::string_view text) {
    atom_ = out_.size();
    out_.append(text);
  }
  // The atom that ends here becomes a group.
  void WrapAtom() {
    out_.insert(*atom_, "(?:");
    out_.push_back(')');
  }

  // *, + or ?, with what makes it lazy or possessive; those are the same in PCRE2.
  absl::Status Quantifier() {
    out_.push_back(in_[at_++]);
    if (Next("?") || Next("+")) out_.push_back(in_[at_++]);
    return absl::OkStatus();
  }

  absl::Status Interval() {
    size_t i = at_ + 1;
    const auto number = [&] {
      const size_t begin = i;
      while (i < in_.size() && IsDigit(in_[i])) ++i;
      return in_.substr(begin, i - begin);
    };
    const std::string_view low = number();
    const bool range = i < in_.size() && in_[i] == ',';
    if (range) ++i;
    const std::string_view high = range ? number() : std::string_view();
    if (i >= in_.size() || in_[i] != '}' || (low.empty() && high.empty())) {  // a brace, no interval
      Atom("\\{");
      ++at_;
      return absl::OkStatus();
    }
    if (!atom_) return Unsupported("a repeat of nothing", at_);
    at_ = i + 1;
    StrAppend(out_, "{", low.empty() ? "0" : low, range ? "," : "", high, "}");
    // What follows repeats the repeat, except that {n,m}? is lazy.
    if (Next("+") || Next("*") || (Next("?") && !range)) {
      WrapAtom();
    } else if (Next("?")) {
      out_.push_back(in_[at_++]);
    }
    return absl::OkStatus();
  }

  absl::Status Open() {
    if (groups_.size() > kMaxDepth) return Unsupported("too many nested groups", at_);
    if (Next("(?#")) {
      const size_t end = in_.find(')', at_);
      if (end == in_.npos) return Unsupported("a comment that is not closed", at_);
      at_ = end + 1;
      return absl::OkStatus();
    }
    const size_t start = out_.size();
    if (!Next("(?")) {
      ++at_;
      out_.push_back('(');
      groups_.push_back({start});
      return absl::OkStatus();
    }
    for (const std::string_view lead : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (!Next(lead)) continue;
      at_ += lead.size();
      out_.append(lead);
      groups_.push_back({start});
      return absl::OkStatus();
    }
    if (Next("(?<")) {
      const size_t end = in_.find('>', at_);
      if (end == in_.npos) return Unsupported("a group name that is not closed", at_);
      out_.append(in_.substr(at_, end + 1 - at_));
      at_ = end + 1;
      groups_.push_back({start});
      return absl::OkStatus();
    }
    return Options(start);
  }

  // (?i:…) or (?i); m is "dot matches newline", which PCRE2 calls s.
  absl::Status Options(size_t start) {
    const size_t begin = at_;
    std::string options = "(?";
    for (at_ += 2; at_ < in_.size() && in_[at_] != ':' && in_[at_] != ')'; ++at_) {
      const char c = in_[at_];
      if (c != 'i' && c != 'm' && c != '-') {
        return Unsupported(StrCat("the group (?", c), begin);
      }
      options.push_back(c == 'm' ? 's' : c);
    }
    if (at_ == in_.size()) return Unsupported("a group that is not closed", begin);
    StrAppend(out_, options, ":");
    if (in_[at_++] == ':') {
      groups_.push_back({start});
    } else {
      ++groups_.back().scoped_options;  // holds up to the end of the group around it
      atom_.reset();
    }
    return absl::OkStatus();
  }

  absl::Status Close() {
    if (groups_.size() == 1) return Unsupported("a parenthesis without its partner", at_);
    out_.append(groups_.back().scoped_options + 1, ')');
    atom_ = groups_.back().start;
    groups_.pop_back();
    ++at_;
    return absl::OkStatus();
  }

  absl::Status Escape() {
    if (at_ + 1 >= in_.size()) return Unsupported("a backslash at the end", at_);
    const char c = in_[at_ + 1];
    if (kShorthands.find(c) != kShorthands.npos) {
      Atom(ShorthandPattern(c));
      at_ += 2;
      return absl::OkStatus();
    }
    if (c == 'p' || c == 'P') {
      CharacterSet set;
      FTUNE_RETURN_IF_ERROR(Property(set));
      Atom(set.Pattern());
      return absl::OkStatus();
    }
    if (c == 'b' || c == 'B') {  // by Oniguruma's \w
      const std::string w = ShorthandPattern('w');
      Atom(c == 'b' ? StrCat("(?:(?<=", w, ")(?!", w, ")|(?<!", w, ")(?=", w, "))")
                    : StrCat("(?:(?<=", w, ")(?=", w, ")|(?<!", w, ")(?!", w, "))"));
      at_ += 2;
      return absl::OkStatus();
    }
    constexpr std::string_view kSame = "AzZGKR";
    if (kSame.find(c) != kSame.npos || (c >= '1' && c <= '9')) {  // anchors, \K, \R, back references
      Atom(in_.substr(at_, 2));
      at_ += 2;
      return absl::OkStatus();
    }
    if (c == 'k' || c == 'g') {
      const size_t end = in_.find('>', at_);
      if (at_ + 2 >= in_.size() || in_[at_ + 2] != '<' || end == in_.npos) {
        return Unsupported("a reference without a name", at_);
      }
      Atom(in_.substr(at_, end + 1 - at_));
      at_ = end + 1;
      return absl::OkStatus();
    }
    char32_t code;
    FTUNE_RETURN_IF_ERROR(EscapedCharacter(&code));
    Atom(CharacterItem(code));
    return absl::OkStatus();
  }

  // \p{…}, \P{…}, \p{^…}.
  absl::Status Property(CharacterSet& set) {
    const bool negated = in_[at_ + 1] == 'P';
    const size_t end = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || end == in_.npos) {
      return Unsupported("a property without braces", at_);
    }
    AddProperty(set, in_.substr(at_ + 3, end - at_ - 3), negated);
    at_ = end + 1;
    return absl::OkStatus();
  }

  // An escape that stands for one character.
  absl::Status EscapedCharacter(char32_t* code) {
    const size_t begin = at_;
    const char c = in_[at_ + 1];
    const auto hex = [&](size_t from, size_t most) -> std::optional<size_t> {
      uint32_t value = 0;
      size_t i = from;
      for (; i < in_.size() && i < from + most; ++i) {
        const char digit = in_[i];
        const int amount = IsDigit(digit)                 ? digit - '0'
                           : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                           : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                          : -1;
        if (amount < 0) break;
        value = value * 16 + static_cast<uint32_t>(amount);
      }
      if (i == from || value > 0x10FFFF) return std::nullopt;
      *code = value;
      return i;
    };
    at_ += 2;
    switch (c) {
      case 't':
        *code = '\t';
        return absl::OkStatus();
      case 'n':
        *code = '\n';
        return absl::OkStatus();
      case 'r':
        *code = '\r';
        return absl::OkStatus();
      case 'f':
        *code = '\f';
        return absl::OkStatus();
      case 'v':
        *code = '\v';
        return absl::OkStatus();
      case 'a':
        *code = '\a';
        return absl::OkStatus();
      case 'e':
        *code = 0x1B;
        return absl::OkStatus();
      case '0':
        *code = 0;
        return absl::OkStatus();
      case 'u': {
        const auto end = hex(at_, 4);
        if (!end || *end != at_ + 4) return Unsupported("\\u without four digits", begin);
        at_ = *end;
        return absl::OkStatus();
      }
      case 'x': {
        const bool braces = at_ < in_.size() && in_[at_] == '{';
        const auto end = hex(at_ + braces, braces ? 8 : 2);
        if (!end || (braces && (*end >= in_.size() || in_[*end] != '}')) || (!braces && *code > 0x7F)) {
          return Unsupported("\\x that is no character", begin);
        }
        at_ = *end + braces;
        return absl::OkStatus();
      }
      default:
        if (IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
          return Unsupported(StrCat("the escape \\", c), begin);
        }
        --at_;
        *code = NextChar(in_, &at_);
        return absl::OkStatus();
    }
  }

  absl::Status Set() {
    CharacterSet set;
    FTUNE_RETURN_IF_ERROR(ReadSet(set, 0));
    Atom(set.Pattern());
    return absl::OkStatus();
  }

  // From '[' to behind its ']'.
  absl::Status ReadSet(CharacterSet& set, int depth) {
    const size_t begin = at_;
    if (depth > kMaxDepth) return Unsupported("too many nested sets", begin);
    ++at_;
    if (Next("^")) {
      set.set_negated(true);
      ++at_;
    }
    bool first = true;
    while (at_ < in_.size() && (first || in_[at_] != ']')) {
      first = false;
      if (Next("&&")) {
        at_ += 2;
        set.Intersect();
      } else if (Next("[:")) {
        FTUNE_RETURN_IF_ERROR(PosixBracket(set));
      } else if (Next("[")) {
        CharacterSet nested;
        FTUNE_RETURN_IF_ERROR(ReadSet(nested, depth + 1));
        set.AddNested(nested.Pattern());
      } else {
        FTUNE_RETURN_IF_ERROR(SetItem(set));
      }
    }
    if (at_ >= in_.size()) return Unsupported("a set that is not closed", begin);
    ++at_;
    return absl::OkStatus();
  }

  absl::Status PosixBracket(CharacterSet& set) {
    const size_t end = in_.find(":]", at_ + 2);
    if (end == in_.npos) return Unsupported("a [: that is not closed", at_);
    AddPosixBracket(set, in_.substr(at_ + 2, end - at_ - 2));
    at_ = end + 2;
    return absl::OkStatus();
  }

  // A class, a character or a range of characters.
  absl::Status SetItem(CharacterSet& set) {
    if (in_[at_] == '\\' && at_ + 1 < in_.size()) {
      const char c = in_[at_ + 1];
      if (kShorthands.find(c) != kShorthands.npos) {
        AddShorthand(set, c);
        at_ += 2;
        return absl::OkStatus();
      }
      if (c == 'p' || c == 'P') return Property(set);
    }
    const size_t begin = at_;
    char32_t low;
    FTUNE_RETURN_IF_ERROR(SetCharacter(&low));
    std::string item = CharacterItem(low);
    const bool range =
        Next("-") && at_ + 1 < in_.size() && in_[at_ + 1] != ']' && !Next("-[") && !Next("-&&");
    if (range) {
      ++at_;
      char32_t high;
      FTUNE_RETURN_IF_ERROR(SetCharacter(&high));
      if (high < low) return Unsupported("a range that is empty", begin);
      StrAppend(item, "-", CharacterItem(high));
    }
    set.AddItem(item);
    return absl::OkStatus();
  }

  absl::Status SetCharacter(char32_t* code) {
    if (in_[at_] != '\\') {
      *code = NextChar(in_, &at_);
      return absl::OkStatus();
    }
    if (at_ + 1 >= in_.size()) return Unsupported("a backslash at the end", at_);
    if (in_[at_ + 1] == 'b') {
      at_ += 2;
      *code = '\b';
      return absl::OkStatus();
    }
    return EscapedCharacter(code);
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  std::vector<Group> groups_;
  std::optional<size_t> atom_;  // where in out_ the last atom starts; none at the start of an alternative
};

}  // namespace

absl::StatusOr<std::string> OnigurumaToPcre2(std::string_view pattern) {
  size_t bad;
  ValidUtf8Prefix(pattern, 0, &bad);
  if (bad > 0) return DataError({.message = "a regular expression is not UTF-8"});
  return Translator(pattern).Run();
}

std::string EscapeForPcre2(std::string_view text) {
  std::string pattern;
  for (size_t position = 0; position < text.size();) pattern += CharacterItem(NextChar(text, &position));
  return pattern;
}

}  // namespace ftune
