#include "data/template/jinja_parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "data/template/jinja_expr_parser.h"
#include "data/template/jinja_token_stream.h"

namespace ftune::jinja {
namespace {

constexpr int kMaxBlockNesting = 100;

using Names = std::initializer_list<std::string_view>;

class Parser {
 public:
  explicit Parser(std::string_view source) : t_(Tokenize(source)), exprs_(t_) {}

  ParsedTemplate Run() {
    ParsedTemplate parsed;
    parsed.body = ParseUntil({}, "");
    parsed.has_generation = has_generation_;
    return parsed;
  }

 private:
  // Statements up to a block tag named in `ends`, whose name is then the current token. With no `ends`: to
  // the end of the source.
  Body ParseUntil(Names ends, std::string_view opened_by) {
    const int begin_line = t_.line();
    if (++nesting_ > kMaxBlockNesting) t_.Fail("blocks are nested more than 100 deep");
    Body body;
    while (true) {
      const Token& token = t_.current();
      if (token.kind == TokenKind::kEnd) {
        if (ends.size() > 0) {
          throw Error(StrCat("unexpected end of template: '{% ", opened_by, " %}' is never closed by '{% ",
                             *(ends.end() - 1), " %}'"),
                      begin_line);
        }
        break;
      }
      if (token.kind == TokenKind::kData) {
        StmtPtr text = Make(StmtKind::kText);
        text->text = t_.Take().text;
        body.push_back(std::move(text));
      } else if (token.kind == TokenKind::kVariableBegin) {
        t_.Take();
        StmtPtr output = Make(StmtKind::kOutput);
        output->value = exprs_.ParseTuple();
        t_.Expect(TokenKind::kVariableEnd, "'}}'");
        body.push_back(std::move(output));
      } else {
        t_.Expect(TokenKind::kBlockBegin, "'{%'");
        const bool at_end = std::any_of(ends.begin(), ends.end(),
                                        [&](std::string_view name) { return t_.current().IsName(name); });
        if (at_end) break;
        body.push_back(ParseStatement());
        EndTag();
      }
    }
    --nesting_;
    return body;
  }

  // The whole of a block's inside: the opening tag's end, the body, the closing tag's name (its end is the
  // caller's).
  Body ParseBody(std::string_view end, std::string_view opened_by) {
    EndTag();
    Body body = ParseUntil({end}, opened_by);
    t_.Take();
    return body;
  }

  void EndTag() { t_.Expect(TokenKind::kBlockEnd, "'%}'"); }

  StmtPtr Make(StmtKind kind) const {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->line = t_.line();
    return stmt;
  }

  StmtPtr ParseStatement() {
    const Token& token = t_.current();
    if (token.IsName("if")) return ParseIf();
    if (token.IsName("for")) return ParseFor();
    if (token.IsName("set")) return ParseSet();
    if (token.IsName("macro")) return ParseMacro();
    if (token.IsName("call")) return ParseCallBlock();
    if (token.IsName("filter")) return ParseFilterBlock();
    if (token.IsName("with")) return ParseWith();
    if (token.IsName("generation")) return ParseGeneration();
    if (token.IsName("print")) {
      StmtPtr output = Make(StmtKind::kOutput);
      t_.Take();
      output->value = exprs_.ParseTuple();
      return output;
    }
    if (token.IsName("break") || token.IsName("continue")) {
      StmtPtr stmt = Make(token.IsName("break") ? StmtKind::kBreak : StmtKind::kContinue);
      if (loops_ == 0) t_.Fail(StrCat("'", token.text, "' outside of a loop"));
      t_.Take();
      return stmt;
    }
    for (const std::string_view tag : {"include", "import", "from", "extends"}) {
      if (token.IsName(tag)) {
        t_.Fail(
            StrCat("the tag '", tag,
                   "' is not allowed: a chat template is one text and can take in no other, itself least"));
      }
    }
    if (token.kind == TokenKind::kName) t_.Fail(StrCat("Encountered unknown tag '", token.text, "'"));
    t_.Fail(StrCat("expected a tag name, found ", token.Describe()));
  }

  StmtPtr ParseIf() {
    StmtPtr stmt = Make(StmtKind::kIf);
    t_.ExpectName("if");
    while (true) {
      Branch& branch = stmt->branches.emplace_back();
      branch.test = exprs_.ParseTuple(/*with_condition=*/false);
      EndTag();
      branch.body = ParseUntil({"elif", "else", "endif"}, "if");
      if (t_.SkipName("elif")) continue;
      if (t_.SkipName("else")) {
        EndTag();
        stmt->branches.emplace_back().body = ParseUntil({"endif"}, "if");
      }
      t_.ExpectName("endif");
      return stmt;
    }
  }

  StmtPtr ParseFor() {
    StmtPtr stmt = Make(StmtKind::kFor);
    t_.ExpectName("for");
    stmt->target = exprs_.ParseTarget(/*with_namespace=*/false, {"in"});
    t_.ExpectName("in");
    stmt->value = exprs_.ParseTuple(/*with_condition=*/false, {"recursive"});
    if (t_.SkipName("if")) stmt->test = exprs_.ParseExpression();
    stmt->recursive = t_.SkipName("recursive");
    EndTag();
    ++loops_;
    stmt->body = ParseUntil({"else", "endfor"}, "for");
    --loops_;
    if (t_.SkipName("else")) {
      EndTag();
      stmt->else_body = ParseUntil({"endfor"}, "for");
    }
    t_.ExpectName("endfor");
    return stmt;
  }

  StmtPtr ParseSet() {
    StmtPtr stmt = Make(StmtKind::kSet);
    t_.ExpectName("set");
    stmt->target = exprs_.ParseTarget(/*with_namespace=*/true, {});
    if (t_.SkipOperator("=")) {
      stmt->value = exprs_.ParseTuple();
      return stmt;
    }
    stmt->kind = StmtKind::kSetBlock;
    stmt->value = exprs_.ParseOptionalFilters();
    stmt->body = ParseBody("endset", "set");
    return stmt;
  }

  // "(name, name=default, …)" of a macro or a call block.
  void ParseSignature(MacroDefinition* macro) {
    t_.ExpectOperator("(");
    while (!t_.current().IsOperator(")")) {
      if (!macro->parameters.empty()) t_.ExpectOperator(",");
      if (t_.current().IsOperator(")")) break;
      Parameter& parameter = macro->parameters.emplace_back();
      parameter.name = t_.ExpectAnyName();
      if (t_.SkipOperator("=")) {
        parameter.fallback = exprs_.ParseExpression();
      } else if (macro->parameters.size() > 1 && (macro->parameters.end() - 2)->fallback != nullptr) {
        t_.Fail("non-default argument follows default argument");
      }
    }
    t_.ExpectOperator(")");
  }

  // The body of a macro, which `break` does not leave and which may use `varargs` and `kwargs`.
  void ParseMacroBody(std::string_view end, std::string_view opened_by, MacroDefinition* macro) {
    const int loops = std::exchange(loops_, 0);
    const bool varargs = std::exchange(exprs_.saw_varargs, false);
    const bool kwargs = std::exchange(exprs_.saw_kwargs, false);
    macro->body = ParseBody(end, opened_by);
    macro->takes_varargs = std::exchange(exprs_.saw_varargs, varargs);
    macro->takes_kwargs = std::exchange(exprs_.saw_kwargs, kwargs);
    loops_ = loops;
  }

  StmtPtr ParseMacro() {
    StmtPtr stmt = Make(StmtKind::kMacro);
    t_.ExpectName("macro");
    stmt->macro = std::make_unique<MacroDefinition>();
    stmt->macro->name = t_.ExpectAnyName();
    ParseSignature(stmt->macro.get());
    ParseMacroBody("endmacro", "macro", stmt->macro.get());
    return stmt;
  }

  StmtPtr ParseCallBlock() {
    StmtPtr stmt = Make(StmtKind::kCallBlock);
    t_.ExpectName("call");
    stmt->macro = std::make_unique<MacroDefinition>();
    stmt->macro->name = "caller";
    if (t_.current().IsOperator("(")) ParseSignature(stmt->macro.get());
    stmt->value = exprs_.ParseCallExpression();
    if (stmt->value->kind != ExprKind::kCall) t_.Fail("expected call");
    ParseMacroBody("endcall", "call", stmt->macro.get());
    return stmt;
  }

  StmtPtr ParseFilterBlock() {
    StmtPtr stmt = Make(StmtKind::kFilterBlock);
    t_.ExpectName("filter");
    stmt->value = exprs_.ParseFilterChain();
    stmt->body = ParseBody("endfilter", "filter");
    return stmt;
  }

  StmtPtr ParseWith() {
    StmtPtr stmt = Make(StmtKind::kWith);
    t_.ExpectName("with");
    while (t_.current().kind != TokenKind::kBlockEnd) {
      if (!stmt->bindings.empty()) t_.ExpectOperator(",");
      ExprPtr target = exprs_.ParseTarget(/*with_namespace=*/false, {});
      t_.ExpectOperator("=");
      stmt->bindings.emplace_back(std::move(target), exprs_.ParseExpression());
    }
    stmt->body = ParseBody("endwith", "with");
    return stmt;
  }

  StmtPtr ParseGeneration() {
    StmtPtr stmt = Make(StmtKind::kGeneration);
    t_.ExpectName("generation");
    has_generation_ = true;
    const int loops = std::exchange(loops_, 0);
    stmt->body = ParseBody("endgeneration", "generation");
    loops_ = loops;
    return stmt;
  }

  TokenStream t_;
  ExprParser exprs_;
  int nesting_ = 0;
  int loops_ = 0;
  bool has_generation_ = false;
};

}  // namespace

ParsedTemplate ParseTemplate(std::string_view source) { return Parser(source).Run(); }

}  // namespace ftune::jinja
