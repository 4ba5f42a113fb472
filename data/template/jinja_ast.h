// The syntax tree of a template. One node type for expressions and one for statements: each kind's comment
// says which fields it uses.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/template/jinja_value.h"

namespace ftune::jinja {

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

enum class ExprKind {
  kConstant,      // constant
  kName,          // name
  kNamespaceRef,  // name.attribute as a target of {% set %}: name, attribute
  kTuple,         // operands
  kList,          // operands
  kDict,          // operands: key, value, key, value, …
  kAttribute,     // operands[0] . name
  kItem,          // operands[0] [ operands[1] ]
  kSlice,         // operands: begin, end, step, each may be null; only inside kItem
  kCall,          // operands[0] ( arguments )
  kFilter,        // operands[0] | name(arguments); operands[0] is null for a block's first filter
  kTest,          // operands[0] is name(arguments)
  kNot,           // operands[0]
  kNegate,        // operands[0]
  kPlus,          // operands[0]
  kAnd,           // operands: 2
  kOr,            // operands: 2
  kBinary,        // operands: 2; name: + - * / // % **
  kConcat,        // operands: 2 or more
  kCompare,       // operands: n + 1; operators: n of == != < <= > >= in notin
  kCondition,     // operands: test, then, else (null: undefined)
};

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;         // *list, or null
  ExprPtr double_star;  // **dict, or null
};

struct Expr {
  ExprKind kind = ExprKind::kConstant;
  int line = 0;
  int depth = 1;  // of the tree below, bounded by the parser
  Value constant;
  std::string name;
  std::string attribute;
  std::vector<ExprPtr> operands;
  std::vector<std::string> operators;
  Arguments arguments;
};

enum class StmtKind {
  kText,         // text
  kOutput,       // value
  kIf,           // branches
  kFor,          // target, value (iterated), test (may be null), body, else_body, recursive
  kSet,          // target, value
  kSetBlock,     // target, value (filters, may be null), body
  kMacro,        // macro
  kCallBlock,    // macro (the caller), value (the call)
  kFilterBlock,  // value (filters), body
  kWith,         // bindings, body
  kGeneration,   // body
  kBreak,
  kContinue,
};

struct Parameter {
  std::string name;
  ExprPtr fallback;  // null: none
};

struct MacroDefinition {
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  // Whether the body mentions `varargs` and `kwargs`: only then may a call pass more than the parameters.
  bool takes_varargs = false;
  bool takes_kwargs = false;
};

struct Branch {
  ExprPtr test;  // null: else
  Body body;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 0;
  std::string text;
  ExprPtr target;
  ExprPtr value;
  ExprPtr test;
  bool recursive = false;
  Body body;
  Body else_body;
  std::vector<Branch> branches;
  std::vector<std::pair<ExprPtr, ExprPtr>> bindings;  // of {% with %}: target, value
  std::unique_ptr<MacroDefinition> macro;
};

}  // namespace ftune::jinja
