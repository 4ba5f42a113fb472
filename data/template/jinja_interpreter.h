// Walks a template's tree and writes the text. One Interpreter serves one rendering.
#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/template/jinja_ast.h"
#include "data/template/jinja_budget.h"
#include "data/template/jinja_value.h"

namespace ftune::jinja {

// Names bound by one block; looked up outwards. Jinja's scopes: loops, macros, {% with %}, set, filter and
// generation blocks open one, {% if %} does not.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> names;

  const Value* FindHere(std::string_view name) const;
  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

using Variables = std::vector<std::pair<std::string, Value>>;
using Clock = std::function<std::tm()>;  // local time, for strftime_now

class Interpreter {
 public:
  // track_provenance: texts remember where they come from (see Text); off, they are plain and a little
  // faster.
  Interpreter(bool track_provenance, Clock clock) : track_(track_provenance), clock_(std::move(clock)) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Throws Error.
  Text Run(const Body& body, Variables variables);

  // The rest is for filters, tests, methods and global functions.
  Budget& budget() { return budget_; }
  int line() const { return line_; }
  std::tm Now() const { return clock_(); }
  NamespacePtr NewNamespace();
  Value Call(const Value& callee, Args& args);
  Value CallFilter(std::string_view name, const Value& value, Args& args);
  bool CallTest(std::string_view name, const Value& value, Args& args);
  // obj.name and obj[key] by Jinja's rules; a miss is an undefined value.
  Value GetAttribute(const Value& object, std::string_view name);
  Value GetItem(const Value& object, const Value& key);
  // A text value, charged to the budget.
  Value Make(Text text);
  Text ToStr(const Value& value);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  // Bounds the recursion of evaluation for as long as it lives.
  class DepthGuard {
   public:
    explicit DepthGuard(Interpreter& in) : in_(in) {
      if (in_.depth_ >= Budget::kMaxEvaluationDepth) {
        throw Error("the template recurses too deeply (a macro that calls itself without end?)");
      }
      ++in_.depth_;
    }
    ~DepthGuard() { --in_.depth_; }

   private:
    Interpreter& in_;
  };
  class TurnGuard;

  Flow ExecuteBody(const Body& body, const ScopePtr& scope, Text* out);
  Flow Execute(const Stmt& stmt, const ScopePtr& scope, Text* out);
  Flow ExecuteIf(const Stmt& stmt, const ScopePtr& scope, Text* out);
  Flow ExecuteFor(const Stmt& stmt, const ScopePtr& scope, Text* out);
  Flow RunLoop(const Stmt& stmt, const Value& iterated, const ScopePtr& scope, int64_t depth0, Text* out);
  void ExecuteSet(const Stmt& stmt, const ScopePtr& scope);
  void ExecuteSetBlock(const Stmt& stmt, const ScopePtr& scope);
  void ExecuteCallBlock(const Stmt& stmt, const ScopePtr& scope, Text* out);
  void ExecuteWith(const Stmt& stmt, const ScopePtr& scope, Text* out);
  void ExecuteGeneration(const Stmt& stmt, const ScopePtr& scope, Text* out);
  // The body's text, in a scope of its own.
  Text Capture(const Body& body, const ScopePtr& scope);
  void Emit(Text text, Text* out);
  void Assign(const Expr& target, const Value& value, const ScopePtr& scope);
  Value MakeMacro(const MacroDefinition& macro, const ScopePtr& scope);
  Value InvokeMacro(const MacroDefinition& macro, const ScopePtr& scope, Args& args);

  Value Evaluate(const Expr& expr, const ScopePtr& scope);
  Value EvaluateName(const Expr& expr, const ScopePtr& scope);
  Value EvaluateItem(const Expr& expr, const ScopePtr& scope);
  Value EvaluateSlice(const Value& object, const Expr& slice, const ScopePtr& scope);
  Value EvaluateDict(const Expr& expr, const ScopePtr& scope);
  Value EvaluateConcat(const Expr& expr, const ScopePtr& scope);
  bool EvaluateCompare(const Expr& expr, const ScopePtr& scope);
  bool CompareOnce(std::string_view op, const Value& a, const Value& b);
  // `input`: what a filter chain without an operand of its own starts from.
  Value EvaluateFilter(const Expr& expr, const ScopePtr& scope, const Value* input);
  Args EvaluateArguments(const Arguments& arguments, const ScopePtr& scope);
  std::vector<Value> EvaluateAll(const std::vector<ExprPtr>& exprs, const ScopePtr& scope);

  const bool track_;
  const Clock clock_;
  Budget budget_;
  std::vector<NamespacePtr> namespaces_;  // emptied at the end: they may hold each other
  int line_ = 0;
  int depth_ = 0;
  int32_t turn_ = -1;            // the message whose loop iteration is running
  bool set_binds_turn_ = false;  // the next {% set x = messages[i] %} of this iteration says whose it is
  int32_t generations_ = 0;      // {% generation %} blocks executed
};

}  // namespace ftune::jinja
