// Template source to tokens, with Jinja's whitespace rules as transformers sets them: trim_blocks (the
// newline after a block is dropped), lstrip_blocks (blanks before a block on its own line are dropped), one
// trailing newline dropped,
// `-` and `+` at a tag's edges. After jinja2/lexer.py (3.1).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ftune::jinja {

enum class TokenKind {
  kData,  // text between tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // text: the unescaped content
  kInteger,
  kFloat,
  kOperator,
  kEnd,  // of the source
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int line = 1;

  bool IsName(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool IsOperator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  // For messages: what the user would see.
  std::string Describe() const;
};

// Ends with one kEnd token. Throws Error with the line.
std::vector<Token> Tokenize(std::string_view source);

}  // namespace ftune::jinja
