#include "data/template/jinja_interpreter.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "data/template/jinja_builtins.h"
#include "data/template/jinja_format.h"

namespace ftune::jinja {
namespace {

ScopePtr NewScope(const ScopePtr& parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  return scope;
}

// A scope that a macro or a recursive loop was defined in, which must still be open when it is called.
ScopePtr Reopen(const std::weak_ptr<Scope>& scope) {
  ScopePtr open = scope.lock();
  if (open == nullptr) throw Error("a macro or loop is called after the block that defined it has ended");
  return open;
}

}  // namespace

const Value* Scope::FindHere(std::string_view name) const {
  for (const auto& [key, value] : names) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    if (const Value* value = scope->FindHere(name)) return value;
  }
  return nullptr;
}

void Scope::Set(std::string_view name, Value value) {
  for (auto& [key, held] : names) {
    if (key == name) {
      held = std::move(value);
      return;
    }
  }
  names.emplace_back(std::string(name), std::move(value));
}

// Restores whose turn it is.
class Interpreter::TurnGuard {
 public:
  explicit TurnGuard(Interpreter& in) : in_(in), turn_(in.turn_), set_binds_turn_(in.set_binds_turn_) {}
  ~TurnGuard() {
    in_.turn_ = turn_;
    in_.set_binds_turn_ = set_binds_turn_;
  }
  int32_t outer_turn() const { return turn_; }

 private:
  Interpreter& in_;
  const int32_t turn_;
  const bool set_binds_turn_;
};

Interpreter::~Interpreter() {
  for (const NamespacePtr& ns : namespaces_) ns->attributes.clear();
}

Text Interpreter::Run(const Body& body, Variables variables) {
  const auto scope = std::make_shared<Scope>();
  scope->names = std::move(variables);
  Text out;
  try {
    ExecuteBody(body, scope, &out);
  } catch (Error& error) {
    if (error.line == 0) error.line = line_;
    throw;
  }
  return out;
}

NamespacePtr Interpreter::NewNamespace() {
  budget_.Allocate(256);
  namespaces_.push_back(std::make_shared<Namespace>());
  return namespaces_.back();
}

Value Interpreter::Make(Text text) {
  Budget::CheckText(text.size());
  budget_.Allocate(static_cast<int64_t>(text.size()) + 64);
  return Value(std::move(text));
}

Text Interpreter::ToStr(const Value& value) { return ToText(value, budget_); }

Interpreter::Flow Interpreter::ExecuteBody(const Body& body, const ScopePtr& scope, Text* out) {
  const DepthGuard guard(*this);
  for (const StmtPtr& stmt : body) {
    const Flow flow = Execute(*stmt, scope, out);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Execute(const Stmt& stmt, const ScopePtr& scope, Text* out) {
  budget_.Step();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kText:
      Emit(Text(stmt.text), out);
      break;
    case StmtKind::kOutput:
      Emit(ToStr(Evaluate(*stmt.value, scope)), out);
      break;
    case StmtKind::kIf:
      return ExecuteIf(stmt, scope, out);
    case StmtKind::kFor:
      return ExecuteFor(stmt, scope, out);
    case StmtKind::kSet:
      ExecuteSet(stmt, scope);
      break;
    case StmtKind::kSetBlock:
      ExecuteSetBlock(stmt, scope);
      break;
    case StmtKind::kMacro:
      scope->Set(stmt.macro->name, MakeMacro(*stmt.macro, scope));
      break;
    case StmtKind::kCallBlock:
      ExecuteCallBlock(stmt, scope, out);
      break;
    case StmtKind::kFilterBlock: {
      const Value text = Make(Capture(stmt.body, scope));
      Emit(ToStr(EvaluateFilter(*stmt.value, scope, &text)), out);
      break;
    }
    case StmtKind::kWith:
      ExecuteWith(stmt, scope, out);
      break;
    case StmtKind::kGeneration:
      ExecuteGeneration(stmt, scope, out);
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

void Interpreter::Emit(Text text, Text* out) {
  Budget::CheckText(out->size() + text.size());
  budget_.Allocate(static_cast<int64_t>(text.size()));
  if (track_) text.Restamp(turn_, -1);
  out->Append(text);
}

Interpreter::Flow Interpreter::ExecuteIf(const Stmt& stmt, const ScopePtr& scope, Text* out) {
  for (const Branch& branch : stmt.branches) {
    if (branch.test == nullptr || IsTrue(Evaluate(*branch.test, scope)))
      return ExecuteBody(branch.body, scope, out);
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteFor(const Stmt& stmt, const ScopePtr& scope, Text* out) {
  return RunLoop(stmt, Evaluate(*stmt.value, scope), scope, 0, out);
}

Interpreter::Flow Interpreter::RunLoop(const Stmt& stmt, const Value& iterated, const ScopePtr& scope,
                                       int64_t depth0, Text* out) {
  std::vector<Value> items = Iterate(iterated, budget_);
  if (stmt.test != nullptr) {
    std::vector<Value> kept;
    for (Value& item : items) {
      const ScopePtr inner = NewScope(scope);
      Assign(*stmt.target, item, inner);
      if (IsTrue(Evaluate(*stmt.test, inner))) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  if (items.empty()) return ExecuteBody(stmt.else_body, NewScope(scope), out);

  auto loop = std::make_shared<Loop>();
  loop->depth0 = depth0;
  loop->items = std::move(items);
  if (stmt.recursive) {
    loop->recurse = [&stmt, depth0, outer = std::weak_ptr<Scope>(scope)](Interpreter& in,
                                                                         const Value& children) {
      Text text;
      in.RunLoop(stmt, children, Reopen(outer), depth0 + 1, &text);
      return in.Make(std::move(text));
    };
  }
  const TurnGuard guard(*this);
  Flow flow = Flow::kNormal;
  for (size_t i = 0; i < loop->items.size() && flow != Flow::kBreak; ++i) {
    const Value& item = loop->items[i];
    loop->index0 = static_cast<int64_t>(i);
    const int32_t message = item.IsDict() ? item.AsDict().message : -1;
    turn_ = message >= 0 ? message : guard.outer_turn();
    set_binds_turn_ = turn_ < 0;
    const ScopePtr inner = NewScope(scope);
    Assign(*stmt.target, item, inner);
    inner->Set("loop", Value(loop));
    flow = ExecuteBody(stmt.body, inner, out);
  }
  loop->changed.clear();  // may hold the loop itself
  return Flow::kNormal;
}

void Interpreter::ExecuteSet(const Stmt& stmt, const ScopePtr& scope) {
  const Value value = Evaluate(*stmt.value, scope);
  // {% for i in range(…) %}{% set message = messages[i] %}: the iteration belongs to that message.
  if (set_binds_turn_ && value.IsDict() && value.AsDict().message >= 0) {
    turn_ = value.AsDict().message;
    set_binds_turn_ = false;
  }
  Assign(*stmt.target, value, scope);
}

void Interpreter::ExecuteSetBlock(const Stmt& stmt, const ScopePtr& scope) {
  Value value = Make(Capture(stmt.body, scope));
  if (stmt.value != nullptr) value = EvaluateFilter(*stmt.value, scope, &value);
  Assign(*stmt.target, value, scope);
}

Text Interpreter::Capture(const Body& body, const ScopePtr& scope) {
  Text text;
  ExecuteBody(body, NewScope(scope), &text);
  return text;
}

void Interpreter::Assign(const Expr& target, const Value& value, const ScopePtr& scope) {
  if (target.kind == ExprKind::kName) {
    scope->Set(target.name, value);
    return;
  }
  if (target.kind == ExprKind::kNamespaceRef) {
    const Value* holder = scope->Find(target.name);
    Namespace* ns = holder == nullptr ? nullptr : holder->GetNamespace();
    if (ns == nullptr) throw Error("cannot assign attribute on non-namespace object");
    if (target.attribute[0] == '_') {
      throw Error(StrCat("a namespace cannot have an attribute '", target.attribute, "' that begins with _"));
    }
    ns->Set(target.attribute, value);
    return;
  }
  const std::vector<Value> items = Iterate(value, budget_);
  if (items.size() != target.operands.size()) {
    throw Error(items.size() < target.operands.size()
                    ? StrCat("not enough values to unpack (expected ", target.operands.size(), ", got ",
                             items.size(), ")")
                    : StrCat("too many values to unpack (expected ", target.operands.size(), ")"));
  }
  for (size_t i = 0; i < items.size(); ++i) Assign(*target.operands[i], items[i], scope);
}

Value Interpreter::MakeMacro(const MacroDefinition& macro, const ScopePtr& scope) {
  auto callable = std::make_shared<Callable>();
  callable->name = macro.name;
  callable->call = [&macro, defined_in = std::weak_ptr<Scope>(scope)](Interpreter& in, Args& args) {
    return in.InvokeMacro(macro, Reopen(defined_in), args);
  };
  return Value(CallablePtr(std::move(callable)));
}

Value Interpreter::InvokeMacro(const MacroDefinition& macro, const ScopePtr& scope, Args& args) {
  const DepthGuard guard(*this);
  const ScopePtr inner = NewScope(scope);
  const size_t positional = std::min(args.positional.size(), macro.parameters.size());
  const auto take_named = [&](std::string_view name) -> std::optional<Value> {
    const auto found = std::find_if(args.named.begin(), args.named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    if (found == args.named.end()) return std::nullopt;
    Value value = std::move(found->second);
    args.named.erase(found);
    return value;
  };
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    if (i < positional) {
      inner->Set(parameter.name, args.positional[i]);
    } else if (std::optional<Value> value = take_named(parameter.name)) {
      inner->Set(parameter.name, *std::move(value));
    } else if (parameter.fallback != nullptr) {
      inner->Set(parameter.name, Evaluate(*parameter.fallback, inner));
    } else {
      inner->Set(parameter.name,
                 Value::MakeUndefined(StrCat("parameter '", parameter.name, "' was not provided")));
    }
  }
  if (inner->FindHere("caller") == nullptr) {
    inner->Set("caller", take_named("caller").value_or(Value::MakeUndefined("No caller defined")));
  }
  if (macro.takes_kwargs) {
    std::vector<std::pair<Value, Value>> rest;
    for (const auto& [name, value] : args.named) rest.emplace_back(Value::String(name), value);
    inner->Set("kwargs", MakeDict(std::move(rest)));
  } else if (!args.named.empty()) {
    throw Error(StrCat("macro '", macro.name, "' takes no keyword argument '", args.named[0].first, "'"));
  }
  if (macro.takes_varargs) {
    inner->Set("varargs",
               MakeList(ListKind::kTuple, {args.positional.begin() + positional, args.positional.end()}));
  } else if (args.positional.size() > macro.parameters.size()) {
    throw Error(
        StrCat("macro '", macro.name, "' takes not more than ", macro.parameters.size(), " argument(s)"));
  }
  Text text;
  ExecuteBody(macro.body, inner, &text);
  return Make(std::move(text));
}

void Interpreter::ExecuteCallBlock(const Stmt& stmt, const ScopePtr& scope, Text* out) {
  const Value callee = Evaluate(*stmt.value->operands[0], scope);
  Args args = EvaluateArguments(stmt.value->arguments, scope);
  args.named.emplace_back("caller", MakeMacro(*stmt.macro, scope));
  Emit(ToStr(Call(callee, args)), out);
}

void Interpreter::ExecuteWith(const Stmt& stmt, const ScopePtr& scope, Text* out) {
  const ScopePtr inner = NewScope(scope);
  for (const auto& [target, value] : stmt.bindings) Assign(*target, Evaluate(*value, scope), inner);
  ExecuteBody(stmt.body, inner, out);
}

void Interpreter::ExecuteGeneration(const Stmt& stmt, const ScopePtr& scope, Text* out) {
  const int32_t generation = generations_++;
  Text text = Capture(stmt.body, scope);
  if (track_) text.Restamp(-1, generation);
  Emit(std::move(text), out);
}

}  // namespace ftune::jinja
