// Expressions of the Interpreter.
#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "data/template/jinja_builtins.h"
#include "data/template/jinja_format.h"
#include "data/template/jinja_interpreter.h"
#include "data/template/jinja_operators.h"

namespace ftune::jinja {
namespace {

// Filters and tests walk over the texts they are given.
void ChargeTexts(const Value& value, const Args& args, Budget& budget) {
  if (value.IsString()) budget.Read(value.AsBytes().size());
  for (const Value& argument : args.positional) {
    if (argument.IsString()) budget.Read(argument.AsBytes().size());
  }
}

}  // namespace

Value Interpreter::Evaluate(const Expr& expr, const ScopePtr& scope) {
  const DepthGuard guard(*this);
  budget_.Step();
  switch (expr.kind) {
    case ExprKind::kConstant:
      // A literal inside a message's loop iteration belongs to that message, wherever it is printed in the
      // end.
      if (track_ && turn_ >= 0 && expr.constant.IsString()) {
        budget_.Read(expr.constant.AsBytes().size());
        return Value(Text(expr.constant.AsBytes(), Tag{.turn = turn_}));
      }
      return expr.constant;
    case ExprKind::kName:
      return EvaluateName(expr, scope);
    case ExprKind::kTuple:
      return MakeList(ListKind::kTuple, EvaluateAll(expr.operands, scope));
    case ExprKind::kList:
      return MakeList(ListKind::kList, EvaluateAll(expr.operands, scope));
    case ExprKind::kDict:
      return EvaluateDict(expr, scope);
    case ExprKind::kAttribute: {
      const Value object = Evaluate(*expr.operands[0], scope);
      line_ = expr.line;
      return GetAttribute(object, expr.name);
    }
    case ExprKind::kItem:
      return EvaluateItem(expr, scope);
    case ExprKind::kCall: {
      const Value callee = Evaluate(*expr.operands[0], scope);
      Args args = EvaluateArguments(expr.arguments, scope);
      line_ = expr.line;
      return Call(callee, args);
    }
    case ExprKind::kFilter:
      return EvaluateFilter(expr, scope, nullptr);
    case ExprKind::kTest: {
      const Value operand = Evaluate(*expr.operands[0], scope);
      Args args = EvaluateArguments(expr.arguments, scope);
      line_ = expr.line;
      return Value(CallTest(expr.name, operand, args));
    }
    case ExprKind::kNot:
      return Value(!IsTrue(Evaluate(*expr.operands[0], scope)));
    case ExprKind::kNegate:
      return Negate(Evaluate(*expr.operands[0], scope));
    case ExprKind::kPlus:
      return Plus(Evaluate(*expr.operands[0], scope));
    case ExprKind::kAnd: {
      Value left = Evaluate(*expr.operands[0], scope);
      return IsTrue(left) ? Evaluate(*expr.operands[1], scope) : left;
    }
    case ExprKind::kOr: {
      Value left = Evaluate(*expr.operands[0], scope);
      return IsTrue(left) ? left : Evaluate(*expr.operands[1], scope);
    }
    case ExprKind::kBinary: {
      const Value left = Evaluate(*expr.operands[0], scope);
      const Value right = Evaluate(*expr.operands[1], scope);
      line_ = expr.line;
      return Arithmetic(expr.name, left, right, budget_);
    }
    case ExprKind::kConcat:
      return EvaluateConcat(expr, scope);
    case ExprKind::kCompare:
      return Value(EvaluateCompare(expr, scope));
    case ExprKind::kCondition:
      if (IsTrue(Evaluate(*expr.operands[0], scope))) return Evaluate(*expr.operands[1], scope);
      if (expr.operands[2] != nullptr) return Evaluate(*expr.operands[2], scope);
      return Value::MakeUndefined(
          "the inline if-expression evaluated to false and no else section was defined.");
    case ExprKind::kNamespaceRef:
    case ExprKind::kSlice:
      break;
  }
  throw Error("a slice is only possible between [ and ]", expr.line);
}

Value Interpreter::EvaluateName(const Expr& expr, const ScopePtr& scope) {
  if (const Value* value = scope->Find(expr.name)) return *value;
  if (const Value* value = FindGlobal(expr.name)) return *value;
  return Value::MakeUndefined(StrCat("'", expr.name, "' is undefined"));
}

Value Interpreter::EvaluateItem(const Expr& expr, const ScopePtr& scope) {
  const Value object = Evaluate(*expr.operands[0], scope);
  const Expr& index = *expr.operands[1];
  if (index.kind == ExprKind::kSlice) return EvaluateSlice(object, index, scope);
  const Value key = Evaluate(index, scope);
  line_ = expr.line;
  return GetItem(object, key);
}

Value Interpreter::EvaluateDict(const Expr& expr, const ScopePtr& scope) {
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < expr.operands.size(); i += 2) {
    const Value key = Evaluate(*expr.operands[i], scope);
    Value value = Evaluate(*expr.operands[i + 1], scope);
    const auto same = std::find_if(entries.begin(), entries.end(),
                                   [&](const auto& e) { return Equals(e.first, key, budget_); });
    if (same != entries.end()) {
      same->second = std::move(value);
    } else {
      entries.emplace_back(key, std::move(value));
    }
  }
  return MakeDict(std::move(entries));
}

Value Interpreter::EvaluateConcat(const Expr& expr, const ScopePtr& scope) {
  Text out;
  for (const ExprPtr& operand : expr.operands) {
    out.Append(ToStr(Evaluate(*operand, scope)));
    Budget::CheckText(out.size());
  }
  return Make(std::move(out));
}

bool Interpreter::EvaluateCompare(const Expr& expr, const ScopePtr& scope) {
  Value left = Evaluate(*expr.operands[0], scope);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = Evaluate(*expr.operands[i + 1], scope);
    line_ = expr.line;
    if (!CompareOnce(expr.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

bool Interpreter::CompareOnce(std::string_view op, const Value& a, const Value& b) {
  if (op == "==") return Equals(a, b, budget_);
  if (op == "!=") return !Equals(a, b, budget_);
  if (op == "in") return Contains(b, a, budget_);
  if (op == "notin") return !Contains(b, a, budget_);
  if (op == "<") return Less(a, b, budget_);
  if (op == ">") return Less(b, a, budget_);
  // Not the negation of the other: NaN is neither.
  const bool less = op == "<=" ? Less(a, b, budget_) : Less(b, a, budget_);
  return less || Equals(a, b, budget_);
}

Value Interpreter::EvaluateFilter(const Expr& expr, const ScopePtr& scope, const Value* input) {
  Value operand;
  if (expr.operands[0] == nullptr) {
    operand = *input;
  } else if (input != nullptr && expr.operands[0]->kind == ExprKind::kFilter) {
    operand = EvaluateFilter(*expr.operands[0], scope, input);
  } else {
    operand = Evaluate(*expr.operands[0], scope);
  }
  Args args = EvaluateArguments(expr.arguments, scope);
  line_ = expr.line;
  return CallFilter(expr.name, operand, args);
}

std::vector<Value> Interpreter::EvaluateAll(const std::vector<ExprPtr>& exprs, const ScopePtr& scope) {
  std::vector<Value> values;
  values.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) values.push_back(Evaluate(*expr, scope));
  budget_.Allocate(static_cast<int64_t>(values.size()) * 64);
  return values;
}

Args Interpreter::EvaluateArguments(const Arguments& arguments, const ScopePtr& scope) {
  Args args;
  args.positional = EvaluateAll(arguments.positional, scope);
  for (const auto& [name, expr] : arguments.named) args.named.emplace_back(name, Evaluate(*expr, scope));
  if (arguments.star != nullptr) {
    for (Value& value : Iterate(Evaluate(*arguments.star, scope), budget_))
      args.positional.push_back(std::move(value));
  }
  if (arguments.double_star != nullptr) {
    const Value more = Evaluate(*arguments.double_star, scope);
    if (!more.IsDict()) throw Error(StrCat("argument after ** must be a mapping, not ", TypeName(more)));
    for (const auto& [key, value] : more.AsDict().entries) {
      if (!key.IsString()) throw Error("keywords must be strings");
      args.named.emplace_back(key.AsBytes(), value);
    }
  }
  return args;
}

Value Interpreter::Call(const Value& callee, Args& args) {
  if (callee.IsUndefined()) throw Error(callee.AsUndefined().message);
  if (const Callable* callable = callee.GetCallable()) return callable->call(*this, args);
  if (const Loop* loop = callee.GetLoop()) {
    if (!loop->recurse) throw Error("The loop must have the 'recursive' marker to be called recursively.");
    if (args.positional.size() != 1 || !args.named.empty()) throw Error("loop(…) takes one argument");
    // A copy: the call may end the loop that holds the function.
    const auto recurse = loop->recurse;
    return recurse(*this, args.positional[0]);
  }
  throw Error(StrCat("'", TypeName(callee), "' object is not callable"));
}

Value Interpreter::CallFilter(std::string_view name, const Value& value, Args& args) {
  const FilterFunction filter = FindFilter(name);
  if (filter == nullptr) throw Error(StrCat("No filter named '", name, "'."));
  ChargeTexts(value, args, budget_);
  return filter(*this, value, args);
}

bool Interpreter::CallTest(std::string_view name, const Value& value, Args& args) {
  const TestFunction test = FindTest(name);
  if (test == nullptr) throw Error(StrCat("No test named '", name, "'."));
  ChargeTexts(value, args, budget_);
  return test(*this, value, args);
}

}  // namespace ftune::jinja
