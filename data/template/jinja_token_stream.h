// The parser's view of the tokens: the current one, the next, and errors that name what was found.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "data/template/jinja_error.h"
#include "data/template/jinja_lexer.h"

namespace ftune::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[pos_]; }
  const Token& next() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  int line() const { return current().line; }

  Token Take() {
    Token token = current();
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return token;
  }
  bool SkipName(std::string_view name) {
    if (!current().IsName(name)) return false;
    Take();
    return true;
  }
  bool SkipOperator(std::string_view op) {
    if (!current().IsOperator(op)) return false;
    Take();
    return true;
  }
  void ExpectOperator(std::string_view op) {
    if (!SkipOperator(op)) Fail(StrCat("expected '", op, "', found ", current().Describe()));
  }
  void ExpectName(std::string_view name) {
    if (!SkipName(name)) Fail(StrCat("expected '", name, "', found ", current().Describe()));
  }
  std::string ExpectAnyName() {
    if (current().kind != TokenKind::kName) Fail(StrCat("expected a name, found ", current().Describe()));
    return Take().text;
  }
  void Expect(TokenKind kind, std::string_view what) {
    if (current().kind != kind) Fail(StrCat("expected ", what, ", found ", current().Describe()));
    Take();
  }
  [[noreturn]] void Fail(const std::string& message) const { throw Error(message, line()); }

 private:
  std::vector<Token> tokens_;
  size_t pos_ = 0;
};

}  // namespace ftune::jinja
