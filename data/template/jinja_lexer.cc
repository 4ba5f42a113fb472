#include "data/template/jinja_lexer.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "data/template/jinja_error.h"
#include "data/template/jinja_unicode.h"

namespace ftune::jinja {
namespace {

// Line ends become \n; the last one is dropped.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out.push_back(source[i]);
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

size_t SkipSpace(std::string_view s, size_t pos) {
  while (pos < s.size()) {
    char32_t c;
    const size_t next = NextCodePoint(s, pos, &c);
    if (!IsSpace(c)) break;
    pos = next;
  }
  return pos;
}

bool AllSpace(std::string_view s) { return SkipSpace(s, 0) == s.size(); }

std::string_view StripRight(std::string_view s) {
  size_t end = 0;
  for (size_t pos = 0; pos < s.size();) {
    char32_t c;
    pos = NextCodePoint(s, pos, &c);
    if (!IsSpace(c)) end = pos;
  }
  return s.substr(0, end);
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeNewlines(source)), s_(source_) {}

  std::vector<Token> Run() {
    while (pos_ < s_.size()) LexRoot();
    Emit(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  void Emit(TokenKind kind, std::string_view text) { tokens_.push_back({kind, std::string(text), line_}); }

  // Moves to `to`, counting lines, and remembers whether a line has just begun.
  void Advance(size_t to) {
    line_ += static_cast<int>(std::count(s_.begin() + pos_, s_.begin() + to, '\n'));
    if (to > pos_) line_starting_ = s_[to - 1] == '\n';
    pos_ = to;
  }

  bool At(size_t pos, std::string_view text) const {
    return s_.substr(std::min(pos, s_.size()), text.size()) == text;
  }

  // Text in front of a tag, shortened as the tag's left edge asks; `strips_line`: lstrip_blocks applies to
  // the tag.
  std::string_view StripBeforeTag(std::string_view text, char sign, bool strips_line) const {
    if (sign == '-') return StripRight(text);
    if (sign == '+' || !strips_line) return text;
    const size_t line_begin = text.rfind('\n') + 1;
    if (line_begin == 0 && !line_starting_) return text;
    return AllSpace(text.substr(line_begin)) ? text.substr(0, line_begin) : text;
  }

  char SignAt(size_t pos) const {
    return pos < s_.size() && (s_[pos] == '-' || s_[pos] == '+') ? s_[pos] : '\0';
  }

  // The offset behind a closing tag at `pos` (its sign, `close` and what it swallows), or npos if it is not
  // there.
  size_t MatchClose(size_t pos, std::string_view close, bool is_block, bool trims_newline) const {
    if (At(pos, close)) {
      const size_t end = pos + close.size();
      return trims_newline && At(end, "\n") ? end + 1 : end;
    }
    if (pos < s_.size() && s_[pos] == '-' && At(pos + 1, close)) return SkipSpace(s_, pos + 1 + close.size());
    if (is_block && pos < s_.size() && s_[pos] == '+' && At(pos + 1, close)) return pos + 1 + close.size();
    return std::string_view::npos;
  }

  void LexRoot() {
    size_t open = pos_;
    while (true) {
      open = std::min(s_.find('{', open), s_.size());
      if (open == s_.size() || At(open, "{{") || At(open, "{%") || At(open, "{#")) break;
      ++open;
    }
    if (open >= s_.size()) {
      EmitData(s_.substr(pos_));
      Advance(s_.size());
      return;
    }
    const char tag = s_[open + 1];
    const char sign = SignAt(open + 2);
    EmitData(StripBeforeTag(s_.substr(pos_, open - pos_), sign, tag != '{'));
    const size_t inside = open + 2 + (sign != '\0' ? 1 : 0);
    Advance(open);
    if (tag == '#') {
      LexComment(inside);
    } else if (const size_t raw = tag == '%' ? MatchRawBegin(inside) : std::string_view::npos;
               raw != std::string_view::npos) {
      Advance(raw);
      LexRaw();
    } else {
      Emit(tag == '%' ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
      Advance(inside);
      LexExpression(tag == '%');
    }
  }

  void EmitData(std::string_view text) {
    if (!text.empty()) Emit(TokenKind::kData, text);
  }

  void LexComment(size_t inside) {
    for (size_t at = inside; at < s_.size(); ++at) {
      const size_t end = MatchClose(at, "#}", true, true);
      if (end == std::string_view::npos) continue;
      Advance(end);
      return;
    }
    throw Error("Missing end of comment tag", line_);
  }

  size_t MatchRawBegin(size_t inside) const {
    size_t pos = SkipSpace(s_, inside);
    if (!At(pos, "raw")) return std::string_view::npos;
    pos = SkipSpace(s_, pos + 3);
    if (At(pos, "%}")) return pos + 2;
    return At(pos, "-%}") ? SkipSpace(s_, pos + 3) : std::string_view::npos;
  }

  void LexRaw() {
    for (size_t open = s_.find("{%", pos_); open != std::string_view::npos; open = s_.find("{%", open + 1)) {
      const char sign = SignAt(open + 2);
      const size_t word = SkipSpace(s_, open + 2 + (sign != '\0' ? 1 : 0));
      if (!At(word, "endraw")) continue;
      const size_t end = MatchClose(SkipSpace(s_, word + 6), "%}", true, true);
      if (end == std::string_view::npos) continue;
      EmitData(StripBeforeTag(s_.substr(pos_, open - pos_), sign, true));
      Advance(end);
      return;
    }
    throw Error("Missing end of raw directive", line_);
  }

  // Inside {{ }} or {% %}, up to and including its end.
  void LexExpression(bool is_block) {
    const int begin_line = line_;
    const std::string_view close = is_block ? "%}" : "}}";
    std::string brackets;
    while (pos_ < s_.size()) {
      if (brackets.empty()) {
        const size_t end = MatchClose(pos_, close, is_block, is_block);
        if (end != std::string_view::npos) {
          Emit(is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
          Advance(end);
          return;
        }
      }
      const size_t after_space = SkipSpace(s_, pos_);
      if (after_space > pos_) {
        Advance(after_space);
        continue;
      }
      LexToken(&brackets);
    }
    throw Error(StrCat("unexpected end of template: a tag that began here is not closed by '", close, "'"),
                begin_line);
  }

  void LexToken(std::string* brackets) {
    const char c = s_[pos_];
    char32_t code_point;
    NextCodePoint(s_, pos_, &code_point);
    if (IsDigit(c)) {
      LexNumber();
    } else if (IsNameStart(code_point)) {
      size_t end = pos_;
      while (end < s_.size()) {
        const size_t next = NextCodePoint(s_, end, &code_point);
        if (!IsNamePart(code_point)) break;
        end = next;
      }
      Emit(TokenKind::kName, s_.substr(pos_, end - pos_));
      Advance(end);
    } else if (c == '\'' || c == '"') {
      LexString(c);
    } else {
      LexOperator(brackets);
    }
  }

  // digit (_? digit)*
  size_t SkipDigits(size_t pos) const {
    while (pos < s_.size() &&
           (IsDigit(s_[pos]) || (s_[pos] == '_' && pos + 1 < s_.size() && IsDigit(s_[pos + 1])))) {
      ++pos;
    }
    return pos;
  }

  void LexNumber() {
    const auto has_digit = [&](size_t pos) { return pos < s_.size() && IsDigit(s_[pos]); };
    size_t end = SkipDigits(pos_);
    bool is_float = false;
    // After a dot (a.0.1) digits are an index, never a fraction.
    if (pos_ == 0 || s_[pos_ - 1] != '.') {
      if (At(end, ".") && has_digit(end + 1)) {
        end = SkipDigits(end + 1);
        is_float = true;
      }
      if (At(end, "e") || At(end, "E")) {
        const size_t digits = end + 1 + (SignAt(end + 1) != '\0' ? 1 : 0);
        if (has_digit(digits)) {
          end = SkipDigits(digits);
          is_float = true;
        }
      }
    }
    std::string text(s_.substr(pos_, end - pos_));
    std::erase(text, '_');
    Emit(is_float ? TokenKind::kFloat : TokenKind::kInteger, text);
    Advance(end);
  }

  void LexString(char quote) {
    size_t end = pos_ + 1;
    while (end < s_.size() && s_[end] != quote) end += s_[end] == '\\' ? 2 : 1;
    if (end >= s_.size()) throw Error("a string is not closed", line_);
    Emit(TokenKind::kString, Unescape(s_.substr(pos_ + 1, end - pos_ - 1)));
    Advance(end + 1);
  }

  // Reads `digits` hexadecimal digits at `pos`.
  char32_t ReadHex(std::string_view text, size_t pos, int digits) const {
    char32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const int digit = pos + i < text.size() ? HexDigit(text[pos + i]) : -1;
      if (digit < 0) throw Error("a string has a malformed \\x, \\u or \\U escape", line_);
      value = value * 16 + static_cast<char32_t>(digit);
    }
    return value;
  }

  // Python's "unicode-escape" decoding.
  std::string Unescape(std::string_view text) const {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\\' || i + 1 >= text.size()) {
        out.push_back(text[i]);
        continue;
      }
      const char c = text[++i];
      static constexpr std::string_view kPlain = "\\'\"abfnrtv";
      static constexpr std::string_view kMeaning = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t at = kPlain.find(c); at != std::string_view::npos) {
        out.push_back(kMeaning[at]);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const int digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        char32_t value = ReadHex(text, i + 1, digits);
        i += digits;
        const bool high = value >= 0xD800 && value < 0xDC00;
        if (high && text.substr(std::min(i + 1, text.size()), 2) == "\\u") {
          const char32_t low = ReadHex(text, i + 3, 4);
          if (low >= 0xDC00 && low < 0xE000) {
            value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
            i += 6;
          }
        }
        AppendUtf8(value, &out);
      } else if (c >= '0' && c <= '7') {
        char32_t value = 0;
        size_t digits = 0;
        for (; digits < 3 && i + digits < text.size() && text[i + digits] >= '0' && text[i + digits] <= '7';
             ++digits) {
          value = value * 8 + static_cast<char32_t>(text[i + digits] - '0');
        }
        AppendUtf8(value, &out);
        i += digits - 1;
      } else if (c != '\n') {  // a backslash before a line end swallows it; before anything else it stays
        out.push_back('\\');
        out.push_back(c);
      }
    }
    return out;
  }

  void LexOperator(std::string* brackets) {
    static constexpr std::array<std::string_view, 26> kOperators = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto found =
        std::find_if(kOperators.begin(), kOperators.end(), [&](std::string_view op) { return At(pos_, op); });
    if (found == kOperators.end()) {
      char32_t c;
      const size_t next = NextCodePoint(s_, pos_, &c);
      throw Error(StrCat("unexpected char '", s_.substr(pos_, next - pos_), "'"), line_);
    }
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') {
      brackets->push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    } else if (c == ')' || c == ']' || c == '}') {
      if (brackets->empty() || brackets->back() != c) {
        throw Error(brackets->empty() ? StrCat("unexpected '", c, "'")
                                      : StrCat("unexpected '", c, "', expected '", brackets->back(), "'"),
                    line_);
      }
      brackets->pop_back();
    }
    Emit(TokenKind::kOperator, *found);
    Advance(pos_ + found->size());
  }

  std::string source_;
  std::string_view s_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string Token::Describe() const {
  switch (kind) {
    case TokenKind::kData:
      return "text";
    case TokenKind::kVariableBegin:
      return "'{{'";
    case TokenKind::kVariableEnd:
      return "'}}'";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kEnd:
      return "the end of the template";
    case TokenKind::kString:
      return StrCat("the string '", text, "'");
    default:
      return StrCat("'", text, "'");
  }
}

std::vector<Token> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace ftune::jinja
