// What goes wrong says where and what, and nothing runs away.
#include "base/error.h"
#include "tests/unit/template/template_test_util.h"

namespace ftune {
namespace {

using test::Conversation;
using test::RenderOrError;

ChatInput Question() { return Conversation({{{"role", "user"}, {"content", "hi"}}}); }

void CheckError(std::string_view source, const std::string& expected) {
  CAPTURE(source.substr(0, 200));
  const std::string message = RenderOrError(source, Question());
  CAPTURE(message.substr(0, 200));
  CHECK(message.find(expected) != std::string::npos);
}

TEST_CASE("errors: the template's name, the line, and what") {
  CheckError("a\nb\n{{ x + 1 }}", "test.jinja:3: error: 'x' is undefined");
  CheckError("a\n{{ 'x'|nosuch }}", "test.jinja:2: error: No filter named 'nosuch'.");
  CheckError("\n\n{{ 'x' is nosuch }}", "test.jinja:3: error: No test named 'nosuch'.");
  CheckError("\n{% nosuch %}", "test.jinja:2: error: Encountered unknown tag 'nosuch'");
  for (const std::string tag :
       {"include 'test.jinja'", "import 'x' as y", "from 'x' import y", "extends 'x'"})
    CheckError("\n{% " + tag + " %}",
               "test.jinja:2: error: the tag '" + tag.substr(0, tag.find(' ')) + "' is not allowed");
  CheckError("\n{% for x in y %}\n",
             "test.jinja:2: error: unexpected end of template: '{% for %}' is never closed");
  CheckError("{{ messages[0].nope.x }}", "'dict object' has no attribute 'nope'");
  CheckError("{{ messages[7].role }}", "list object has no element 7");
  CheckError("x\n{{ 'a' + 1 }}", "test.jinja:2: error: can only concatenate str (not \"int\") to str");
  CheckError("{{ 5() }}", "'int' object is not callable");
  CheckError("{{ none.x.y }}", "'None' has no attribute 'x'");
  CheckError("{{ 9223372036854775807 + 1 }}", "does not fit 64 bits");
  CheckError("{{ 99999999999999999999 }}",
             "test.jinja:1: error: the number 99999999999999999999 does not fit 64 bits");
  CheckError("{{ messages.append(1) }}", "'append' of 'list' object is unsafe");
  CheckError("{{ {}.update({}) }}", "'update' of 'dict' object is unsafe");
  CheckError("{{ 1 }", "test.jinja:1: error:");
  CheckError("{{ \"\\x4\" }}", "malformed \\x");
}

TEST_CASE("errors: raise_exception's text is passed through, with its line") {
  CheckError("\n{{ raise_exception('No system role, please') }}",
             "test.jinja:2: error: No system role, please");
  const auto parsed = test::Parse("{{ raise_exception('x') }}");
  REQUIRE(parsed.ok());
  const auto text = (*parsed)->Render(Question());
  CHECK(ExitCodeOf(text.status()) == static_cast<int>(ExitCode::kData));
  CHECK(DetailOf(text.status())->message == "x");
  CHECK(DetailOf(text.status())->file == "test.jinja");
}

TEST_CASE("errors: a conversation that is none") {
  const auto message = [](OrderedJson messages) {
    return RenderOrError("x", Conversation(std::move(messages)));
  };
  CHECK(message(OrderedJson::array()).find("empty conversation") != std::string::npos);
  CHECK(message({{"role", "user"}}).find("'messages' must be a list") != std::string::npos);
  CHECK(message({"text"}).find("messages[0] is not an object") != std::string::npos);
  ChatInput input = Question();
  input.extra = {{"messages", 1}};
  CHECK(RenderOrError("x", input).find("the variable 'messages'") != std::string::npos);
  input.extra = 5;
  CHECK(RenderOrError("x", input).find("must be an object") != std::string::npos);
  input.extra = {{"big", 18446744073709551615u}};
  CHECK(RenderOrError("x", input).find("18446744073709551615 does not fit") != std::string::npos);
  OrderedJson deep = OrderedJson::array();
  for (int i = 0; i < 5000; ++i) deep = OrderedJson::array({std::move(deep)});
  input.extra = {{"deep", std::move(deep)}};
  CHECK(RenderOrError("x", input).find("nested more than 200 deep") != std::string::npos);
}

TEST_CASE("errors: malformed UTF-8 in a template or a message is no crash") {
  CheckError("{{ '\xff\xfe'|nosuch }}", "No filter named");
  CheckError("{% \xff %}", "unexpected char");
  CHECK(RenderOrError("\xff{{ '\xc3' | upper | length }}", Question()).ends_with("1"));
  ChatInput input = Question();
  input.messages[0]["content"] = "\xe2\x82";
  CHECK(RenderOrError("{{ raise_exception(messages[0].content) }}", input).find("error:") !=
        std::string::npos);
}

TEST_CASE("limits: hostile templates end in an error") {
  CheckError("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recurses too deeply");
  CheckError("{% macro f(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}", "nested more than 200 deep");
  CheckError("{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}", "recurses too deeply");
  CheckError("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
             "runs too long");
  CheckError("{{ range(1000000000) }}", "Range too big");
  CheckError("{{ 'x' * 100000000000 }}", "more than 64 MiB");
  CheckError("{{ [0] * 100000000000 }}", "more than a million items");
  CheckError(
      "{% set ns = namespace(x='xxxxxxxxxx') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor "
      "%}",
      "64 MiB");
  CheckError(
      "{% set ns = namespace(x='x' * 50000000) %}{% for i in range(99) %}{% set ns.y = ns.x ~ i %}{% endfor "
      "%}",
      "too much memory");
  CheckError("{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}",
             "nested more than 200 deep");
  // Shared, so small in memory, but endless to walk.
  const std::string shared =
      "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
      "{% set ns.y = [ns.y, ns.y] %}{% endfor %}";
  CheckError(shared + "{{ ns.x == ns.y }}", "runs too long");
  CheckError(shared + "{{ ns.x }}", "error:");
  CheckError(shared + "{{ ns.x|tojson }}", "error:");
  // Few steps over much text, and many texts that are one in memory.
  for (const std::string expression :
       {"x == y", "x < y", "x|length == 3", "x[:-1]", "x.count('y')", "'y' in x", "[x, y]|unique|list"}) {
    CheckError("{% set x = 'x' * 3000000 %}{% set y = 'x' * 3000000 %}{% for i in range(99999) %}{% if " +
                   expression + " %}{% endif %}{% endfor %}",
               "test.jinja:1: error: the template ");
  }
  CheckError("{{ (['x' * 60000000] * 1000000)|join }}", "64 MiB");
  CheckError("{{ ''.join(['x' * 60000000] * 1000000) }}", "64 MiB");
  CheckError("{{ ('a ' * 30000000).split() }}", "more than a million items");
  CheckError("{{ ('a\\n' * 30000000).splitlines() }}", "more than a million items");
  CheckError("{{ ('a' * 30000000).split('a') }}", "more than a million items");
  CheckError("{{ ('a' * 30000000)[::-1] }}", "more than a million items");
  CHECK(RenderOrError("{{ raise_exception('é' * 30000000) }}", Question()).size() < 5000);
  // Namespaces that hold each other are freed all the same (the leak checker watches).
  CHECK(RenderOrError("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}ok",
                      Question()) == "ok");
  CHECK(RenderOrError("{% for x in [1] %}{{ loop.changed(loop) }}{% endfor %}", Question()) == "True");
}

TEST_CASE("limits: deeply nested source ends in an error") {
  const auto repeat = [](const std::string& piece, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += piece;
    return out;
  };
  constexpr int kMany = 100'000;
  CheckError("{{ " + repeat("(", kMany) + "1" + repeat(")", kMany) + " }}", "nested more than 100 deep");
  CheckError("{{ " + repeat("[", kMany) + repeat("]", kMany) + " }}", "nested more than 100 deep");
  CheckError("{{ " + repeat("f(", kMany) + repeat(")", kMany) + " }}", "nested more than 100 deep");
  CheckError("{{ " + repeat("-", kMany) + "1 }}", "nested more than 100 deep");
  CheckError("{{ " + repeat("not ", kMany) + "1 }}", "nested more than 100 deep");
  CheckError("{{ 1" + repeat(" + 1", kMany) + " }}", "nested more than 400 deep");
  CheckError("{{ x" + repeat(".x", kMany) + " }}", "nested more than 400 deep");
  CheckError("{{ x" + repeat("|upper", kMany) + " }}", "nested more than 400 deep");
  CheckError("{{ x" + repeat(" if x else x", kMany) + " }}", "nested more than 100 deep");
  CheckError(repeat("{% if x %}", kMany), "blocks are nested more than 100 deep");
  CheckError(repeat("{% if x %}{% elif y %}", kMany), "blocks are nested more than 100 deep");
  CHECK(RenderOrError("{{ 'a'" + repeat(" ~ 'a'", 5000) + " }}", Question()).size() == 5001);
  CHECK(RenderOrError("{% if false %}" + repeat("{% elif false %}", 5000) + "{% else %}x{% endif %}",
                      Question()) == "x");
}

}  // namespace
}  // namespace ftune
