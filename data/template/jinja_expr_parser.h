// The expression half of the grammar.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "data/template/jinja_ast.h"
#include "data/template/jinja_token_stream.h"

namespace ftune::jinja {

class ExprParser {
 public:
  explicit ExprParser(TokenStream& tokens) : t_(tokens) {}

  // One expression, or several separated by commas as a tuple. `end_names`: names that may follow a trailing
  // comma.
  ExprPtr ParseTuple(bool with_condition = true, std::initializer_list<std::string_view> end_names = {});
  ExprPtr ParseExpression(bool with_condition = true);
  // What {% for %} and {% set %} assign to: a name, a tuple of names, or (with_namespace) ns.attribute.
  ExprPtr ParseTarget(bool with_namespace, std::initializer_list<std::string_view> end_names);
  // `filter|filter(…)` of a block; the first filter's operand is null.
  ExprPtr ParseFilterChain();
  // `|filter|filter` after a set block's target, or null.
  ExprPtr ParseOptionalFilters();
  // A call's expression: primary and postfix.
  ExprPtr ParseCallExpression();

  // Since the last reset: whether `varargs` or `kwargs` were mentioned.
  bool saw_varargs = false;
  bool saw_kwargs = false;

 private:
  class Nested;

  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filter);
  ExprPtr ParsePrimary(bool with_namespace);
  ExprPtr ParseConstantOrName(bool with_namespace);
  ExprPtr ParseNumber();
  ExprPtr ParseListLiteral();
  ExprPtr ParseDictLiteral();
  ExprPtr ParsePostfix(ExprPtr expr);
  ExprPtr ParseFilters(ExprPtr expr);
  ExprPtr ParseFilter(ExprPtr operand);
  ExprPtr ParseTest(ExprPtr operand);
  ExprPtr ParseSubscript(ExprPtr operand);
  ExprPtr ParseIndex();
  ExprPtr ParseCall(ExprPtr callee);
  void ParseArguments(Expr* owner);
  std::string ParseDottedName();
  template <typename Parse>
  ExprPtr ParseTupleOf(Parse parse, bool parenthesised, std::initializer_list<std::string_view> end_names);
  bool AtTupleEnd(std::initializer_list<std::string_view> end_names) const;

  TokenStream& t_;
  int nesting_ = 0;
};

}  // namespace ftune::jinja
