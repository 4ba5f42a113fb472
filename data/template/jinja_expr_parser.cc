#include "data/template/jinja_expr_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace ftune::jinja {
namespace {

// Bounds for the recursion of the parser and of everything that walks the tree.
constexpr int kMaxNesting = 100;
constexpr int kMaxDepth = 400;

void NoteChild(const ExprPtr& child, Expr* parent) {
  if (child == nullptr) return;
  parent->depth = std::max(parent->depth, child->depth + 1);
  if (parent->depth > kMaxDepth) throw Error("an expression is nested more than 400 deep", parent->line);
}

ExprPtr Make(ExprKind kind, int line) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

template <typename... Operands>
ExprPtr Make(ExprKind kind, int line, Operands... operands) {
  ExprPtr expr = Make(kind, line);
  (NoteChild(operands, expr.get()), ...);
  (expr->operands.push_back(std::move(operands)), ...);
  return expr;
}

void AddOperand(ExprPtr operand, Expr* parent) {
  NoteChild(operand, parent);
  parent->operands.push_back(std::move(operand));
}

bool IsComparison(const Token& token) {
  static constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  return token.kind == TokenKind::kOperator &&
         std::find(std::begin(kOperators), std::end(kOperators), token.text) != std::end(kOperators);
}

}  // namespace

// Counts nested brackets and the like for as long as it lives.
class ExprParser::Nested {
 public:
  explicit Nested(ExprParser& parser) : parser_(parser) {
    if (++parser_.nesting_ > kMaxNesting) parser_.t_.Fail("expressions are nested more than 100 deep");
  }
  ~Nested() { --parser_.nesting_; }

 private:
  ExprParser& parser_;
};

bool ExprParser::AtTupleEnd(std::initializer_list<std::string_view> end_names) const {
  const Token& token = t_.current();
  if (token.kind == TokenKind::kVariableEnd || token.kind == TokenKind::kBlockEnd || token.IsOperator(")"))
    return true;
  return std::any_of(end_names.begin(), end_names.end(),
                     [&](std::string_view name) { return token.IsName(name); });
}

template <typename Parse>
ExprPtr ExprParser::ParseTupleOf(Parse parse, bool parenthesised,
                                 std::initializer_list<std::string_view> end_names) {
  const int line = t_.line();
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) t_.ExpectOperator(",");
    if (AtTupleEnd(end_names)) break;
    items.push_back(parse());
    if (!t_.current().IsOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!parenthesised) t_.Fail(StrCat("Expected an expression, got ", t_.current().Describe()));
  }
  ExprPtr tuple = Make(ExprKind::kTuple, line);
  for (ExprPtr& item : items) AddOperand(std::move(item), tuple.get());
  return tuple;
}

ExprPtr ExprParser::ParseTuple(bool with_condition, std::initializer_list<std::string_view> end_names) {
  return ParseTupleOf([&] { return ParseExpression(with_condition); }, false, end_names);
}

ExprPtr ExprParser::ParseTarget(bool with_namespace, std::initializer_list<std::string_view> end_names) {
  ExprPtr target = ParseTupleOf([&] { return ParsePrimary(with_namespace); }, false, end_names);
  const auto assignable = [](const auto& self, const Expr& expr) -> bool {
    if (expr.kind == ExprKind::kTuple) {
      return std::all_of(expr.operands.begin(), expr.operands.end(),
                         [&](const ExprPtr& operand) { return self(self, *operand); });
    }
    return expr.kind == ExprKind::kName || expr.kind == ExprKind::kNamespaceRef;
  };
  if (!assignable(assignable, *target)) throw Error("can't assign to this expression", target->line);
  return target;
}

ExprPtr ExprParser::ParseExpression(bool with_condition) {
  const Nested nested(*this);
  const int line = t_.line();
  ExprPtr expr = ParseOr();
  while (with_condition && t_.SkipName("if")) {
    ExprPtr test = ParseOr();
    ExprPtr otherwise = t_.SkipName("else") ? ParseExpression() : nullptr;
    expr = Make(ExprKind::kCondition, line, std::move(test), std::move(expr), std::move(otherwise));
  }
  return expr;
}

ExprPtr ExprParser::ParseOr() {
  const int line = t_.line();
  ExprPtr left = ParseAnd();
  while (t_.SkipName("or")) left = Make(ExprKind::kOr, line, std::move(left), ParseAnd());
  return left;
}

ExprPtr ExprParser::ParseAnd() {
  const int line = t_.line();
  ExprPtr left = ParseNot();
  while (t_.SkipName("and")) left = Make(ExprKind::kAnd, line, std::move(left), ParseNot());
  return left;
}

ExprPtr ExprParser::ParseNot() {
  const int line = t_.line();
  if (!t_.SkipName("not")) return ParseCompare();
  const Nested nested(*this);
  return Make(ExprKind::kNot, line, ParseNot());
}

ExprPtr ExprParser::ParseCompare() {
  const int line = t_.line();
  ExprPtr first = ParseSum();
  ExprPtr compare;
  while (true) {
    std::string op;
    if (IsComparison(t_.current())) {
      op = t_.Take().text;
    } else if (t_.SkipName("in")) {
      op = "in";
    } else if (t_.current().IsName("not") && t_.next().IsName("in")) {
      t_.Take();
      t_.Take();
      op = "notin";
    } else {
      break;
    }
    if (compare == nullptr) compare = Make(ExprKind::kCompare, line, std::move(first));
    compare->operators.push_back(std::move(op));
    AddOperand(ParseSum(), compare.get());
  }
  return compare == nullptr ? std::move(first) : std::move(compare);
}

ExprPtr ExprParser::ParseSum() {
  const int line = t_.line();
  ExprPtr left = ParseConcat();
  while (t_.current().IsOperator("+") || t_.current().IsOperator("-")) {
    const std::string op = t_.Take().text;
    left = Make(ExprKind::kBinary, line, std::move(left), ParseConcat());
    left->name = op;
  }
  return left;
}

ExprPtr ExprParser::ParseConcat() {
  const int line = t_.line();
  ExprPtr first = ParseProduct();
  if (!t_.current().IsOperator("~")) return first;
  ExprPtr concat = Make(ExprKind::kConcat, line, std::move(first));
  while (t_.SkipOperator("~")) AddOperand(ParseProduct(), concat.get());
  return concat;
}

ExprPtr ExprParser::ParseProduct() {
  const int line = t_.line();
  ExprPtr left = ParsePower();
  const auto at_operator = [&] {
    const Token& token = t_.current();
    return token.IsOperator("*") || token.IsOperator("/") || token.IsOperator("//") || token.IsOperator("%");
  };
  while (at_operator()) {
    const std::string op = t_.Take().text;
    left = Make(ExprKind::kBinary, line, std::move(left), ParsePower());
    left->name = op;
  }
  return left;
}

ExprPtr ExprParser::ParsePower() {
  const int line = t_.line();
  ExprPtr left = ParseUnary(true);
  while (t_.SkipOperator("**")) {
    left = Make(ExprKind::kBinary, line, std::move(left), ParseUnary(true));
    left->name = "**";
  }
  return left;
}

ExprPtr ExprParser::ParseUnary(bool with_filter) {
  const int line = t_.line();
  ExprPtr expr;
  if (t_.current().IsOperator("-") || t_.current().IsOperator("+")) {
    const Nested nested(*this);
    const ExprKind kind = t_.Take().text == "-" ? ExprKind::kNegate : ExprKind::kPlus;
    expr = Make(kind, line, ParseUnary(false));
  } else {
    expr = ParsePrimary(false);
  }
  expr = ParsePostfix(std::move(expr));
  return with_filter ? ParseFilters(std::move(expr)) : std::move(expr);
}

ExprPtr ExprParser::ParsePrimary(bool with_namespace) {
  const Nested nested(*this);
  const Token& token = t_.current();
  const int line = token.line;
  switch (token.kind) {
    case TokenKind::kName:
      return ParseConstantOrName(with_namespace);
    case TokenKind::kString: {
      std::string text;
      while (t_.current().kind == TokenKind::kString) text += t_.Take().text;
      ExprPtr expr = Make(ExprKind::kConstant, line);
      expr->constant = Value::String(text);
      return expr;
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return ParseNumber();
    default:
      break;
  }
  if (token.IsOperator("[")) return ParseListLiteral();
  if (token.IsOperator("{")) return ParseDictLiteral();
  if (t_.SkipOperator("(")) {
    ExprPtr inner = ParseTupleOf([&] { return ParseExpression(); }, true, {});
    t_.ExpectOperator(")");
    return inner;
  }
  t_.Fail(StrCat("unexpected ", token.Describe()));
}

ExprPtr ExprParser::ParseConstantOrName(bool with_namespace) {
  const Token token = t_.Take();
  ExprPtr expr = Make(ExprKind::kConstant, token.line);
  if (token.text == "true" || token.text == "True") {
    expr->constant = Value(true);
  } else if (token.text == "false" || token.text == "False") {
    expr->constant = Value(false);
  } else if (token.text == "none" || token.text == "None") {
    expr->constant = Value();
  } else if (with_namespace && t_.SkipOperator(".")) {
    expr->kind = ExprKind::kNamespaceRef;
    expr->name = token.text;
    expr->attribute = t_.ExpectAnyName();
  } else {
    expr->kind = ExprKind::kName;
    expr->name = token.text;
    if (token.text == "varargs") saw_varargs = true;
    if (token.text == "kwargs") saw_kwargs = true;
  }
  return expr;
}

ExprPtr ExprParser::ParseNumber() {
  const Token token = t_.Take();
  ExprPtr expr = Make(ExprKind::kConstant, token.line);
  const char* begin = token.text.data();
  const char* end = begin + token.text.size();
  if (token.kind == TokenKind::kInteger) {
    int64_t value = 0;
    if (std::from_chars(begin, end, value).ec != std::errc()) {
      throw Error(StrCat("the number ", token.text, " does not fit 64 bits"), token.line);
    }
    expr->constant = Value(value);
  } else {
    double value = 0;
    std::from_chars(begin, end, value);
    expr->constant = Value(value);
  }
  return expr;
}

ExprPtr ExprParser::ParseListLiteral() {
  ExprPtr list = Make(ExprKind::kList, t_.line());
  t_.ExpectOperator("[");
  while (!t_.current().IsOperator("]")) {
    if (!list->operands.empty()) t_.ExpectOperator(",");
    if (t_.current().IsOperator("]")) break;
    AddOperand(ParseExpression(), list.get());
  }
  t_.ExpectOperator("]");
  return list;
}

ExprPtr ExprParser::ParseDictLiteral() {
  ExprPtr dict = Make(ExprKind::kDict, t_.line());
  t_.ExpectOperator("{");
  while (!t_.current().IsOperator("}")) {
    if (!dict->operands.empty()) t_.ExpectOperator(",");
    if (t_.current().IsOperator("}")) break;
    AddOperand(ParseExpression(), dict.get());
    t_.ExpectOperator(":");
    AddOperand(ParseExpression(), dict.get());
  }
  t_.ExpectOperator("}");
  return dict;
}

ExprPtr ExprParser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (t_.current().IsOperator(".") || t_.current().IsOperator("[")) {
      expr = ParseSubscript(std::move(expr));
    } else if (t_.current().IsOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr ExprParser::ParseFilters(ExprPtr expr) {
  while (true) {
    if (t_.SkipOperator("|")) {
      expr = ParseFilter(std::move(expr));
    } else if (t_.SkipName("is")) {
      expr = ParseTest(std::move(expr));
    } else if (t_.current().IsOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

std::string ExprParser::ParseDottedName() {
  std::string name = t_.ExpectAnyName();
  while (t_.SkipOperator(".")) name += "." + t_.ExpectAnyName();
  return name;
}

ExprPtr ExprParser::ParseFilter(ExprPtr operand) {
  const int line = t_.line();
  std::string name = ParseDottedName();
  ExprPtr filter = Make(ExprKind::kFilter, line, std::move(operand));
  filter->name = std::move(name);
  if (t_.current().IsOperator("(")) ParseArguments(filter.get());
  return filter;
}

ExprPtr ExprParser::ParseFilterChain() {
  ExprPtr filter = ParseFilter(nullptr);
  while (t_.SkipOperator("|")) filter = ParseFilter(std::move(filter));
  return filter;
}

ExprPtr ExprParser::ParseOptionalFilters() { return t_.SkipOperator("|") ? ParseFilterChain() : nullptr; }

ExprPtr ExprParser::ParseTest(ExprPtr operand) {
  const int line = t_.line();
  const bool negated = t_.SkipName("not");
  std::string name = ParseDottedName();
  ExprPtr test = Make(ExprKind::kTest, line, std::move(operand));
  test->name = std::move(name);
  const Token& token = t_.current();
  const bool bare_argument = (token.kind == TokenKind::kName || token.kind == TokenKind::kString ||
                              token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
                              token.IsOperator("[") || token.IsOperator("{")) &&
                             !token.IsName("else") && !token.IsName("or") && !token.IsName("and");
  if (token.IsOperator("(")) {
    ParseArguments(test.get());
  } else if (bare_argument) {
    if (token.IsName("is")) t_.Fail("You cannot chain multiple tests with is");
    ExprPtr argument = ParsePostfix(ParsePrimary(false));
    NoteChild(argument, test.get());
    test->arguments.positional.push_back(std::move(argument));
  }
  return negated ? Make(ExprKind::kNot, line, std::move(test)) : std::move(test);
}

ExprPtr ExprParser::ParseSubscript(ExprPtr operand) {
  const int line = t_.line();
  if (t_.SkipOperator(".")) {
    const Token& token = t_.current();
    if (token.kind == TokenKind::kName) {
      ExprPtr attribute = Make(ExprKind::kAttribute, line, std::move(operand));
      attribute->name = t_.Take().text;
      return attribute;
    }
    if (token.kind != TokenKind::kInteger)
      t_.Fail(StrCat("expected name or number, found ", token.Describe()));
    return Make(ExprKind::kItem, line, std::move(operand), ParseNumber());
  }
  t_.ExpectOperator("[");
  if (t_.current().IsOperator("]")) t_.Fail("expected an index between [ and ]");
  ExprPtr index = ParseIndex();
  if (t_.current().IsOperator(",")) {
    ExprPtr tuple = Make(ExprKind::kTuple, line, std::move(index));
    while (t_.SkipOperator(",")) {
      if (t_.current().IsOperator("]")) break;
      AddOperand(ParseExpression(), tuple.get());
    }
    index = std::move(tuple);
  }
  t_.ExpectOperator("]");
  return Make(ExprKind::kItem, line, std::move(operand), std::move(index));
}

ExprPtr ExprParser::ParseIndex() {
  const int line = t_.line();
  ExprPtr begin;
  if (!t_.current().IsOperator(":")) {
    begin = ParseExpression();
    if (!t_.current().IsOperator(":")) return begin;
  }
  t_.ExpectOperator(":");
  const auto at_bound = [&] {
    const Token& token = t_.current();
    return !token.IsOperator(":") && !token.IsOperator("]") && !token.IsOperator(",");
  };
  ExprPtr end = at_bound() ? ParseExpression() : nullptr;
  ExprPtr step;
  if (t_.SkipOperator(":") && at_bound()) step = ParseExpression();
  return Make(ExprKind::kSlice, line, std::move(begin), std::move(end), std::move(step));
}

ExprPtr ExprParser::ParseCall(ExprPtr callee) {
  ExprPtr call = Make(ExprKind::kCall, t_.line(), std::move(callee));
  ParseArguments(call.get());
  return call;
}

ExprPtr ExprParser::ParseCallExpression() { return ParsePostfix(ParsePrimary(false)); }

void ExprParser::ParseArguments(Expr* owner) {
  Arguments& arguments = owner->arguments;
  t_.ExpectOperator("(");
  const int line = t_.line();
  const auto ensure = [&](bool valid) {
    if (!valid) throw Error("invalid syntax for function call expression", line);
  };
  const auto parse = [&] {
    ExprPtr expr = ParseExpression();
    NoteChild(expr, owner);
    return expr;
  };
  bool first = true;
  while (!t_.current().IsOperator(")")) {
    if (!first) {
      t_.ExpectOperator(",");
      if (t_.current().IsOperator(")")) break;
    }
    first = false;
    if (t_.SkipOperator("*")) {
      ensure(arguments.star == nullptr && arguments.double_star == nullptr);
      arguments.star = parse();
    } else if (t_.SkipOperator("**")) {
      ensure(arguments.double_star == nullptr);
      arguments.double_star = parse();
    } else if (t_.current().kind == TokenKind::kName && t_.next().IsOperator("=")) {
      ensure(arguments.double_star == nullptr);
      std::string name = t_.Take().text;
      t_.Take();
      arguments.named.emplace_back(std::move(name), parse());
    } else {
      ensure(arguments.star == nullptr && arguments.double_star == nullptr && arguments.named.empty());
      arguments.positional.push_back(parse());
    }
  }
  t_.ExpectOperator(")");
}

}  // namespace ftune::jinja
