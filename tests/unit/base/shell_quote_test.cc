#include "base/shell_quote.h"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <vector>

#include "base/run_program.h"

namespace ftune {
namespace {

TEST_CASE("words for a shell") {
  CHECK(ShellQuote("recipe.yaml") == "recipe.yaml");
  CHECK(ShellQuote("") == "''");
  CHECK(ShellQuote("a=b") == "'a=b'");
  CHECK(ShellQuote("it's") == "'it'\\''s'");
  CHECK(ShellQuote(std::vector<std::string>{"a", "b c"}) == "a 'b c'");
}

TEST_CASE("a shell reads quoted words as they were") {
  std::vector<std::string> words = {"",      " ",   "'",     "\"",    "\\",       "$HOME", "`x`", "$(x)",
                                    "a\nb",  "*",   "~",     "~root", "#x",       "a;b",   "a&b", "a|b",
                                    "<x>",   "!x",  "{a,b}", "[a]",   "x=y",      "-n",    "é",   "\t",
                                    "'\\''", "\\n", "%s",    "a  b",  "\x01\x7f", "\xff"};
  for (char c = 1; c > 0 && c < 127; ++c) words.push_back(std::string(1, c) + "x" + c);
  for (const char* shell : {"sh", "bash"}) {
    const std::string script = "printf '%s\\0' " + ShellQuote(words);
    const absl::StatusOr<ProgramEnd> end = RunProgram({shell, "-c", script});
    REQUIRE(end.ok());
    std::string expected;
    for (const std::string& word : words) expected += word + '\0';
    CHECK(end->output == expected);
    CHECK(end->errors == "");
  }
}

TEST_CASE("a program that is run") {
  const absl::StatusOr<ProgramEnd> both = RunProgram({"sh", "-c", "echo out; echo err >&2; cat; exit 3"});
  REQUIRE(both.ok());
  CHECK(both->output == "out\n");
  CHECK(both->errors == "err\n");
  CHECK(WEXITSTATUS(both->wait_status) == 3);
  const absl::StatusOr<ProgramEnd> killed = RunProgram({"sh", "-c", "kill -9 $$"});
  CHECK(WTERMSIG(killed->wait_status) == SIGKILL);
  const absl::StatusOr<ProgramEnd> much =
      RunProgram({"sh", "-c", "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"});
  CHECK(much->output.size() == 1000000);
  CHECK(much->errors.size() == 1000000);
  CHECK(RunProgram({"no-such-program-here"}).status().code() == absl::StatusCode::kNotFound);
  setenv("FTUNE_TEST_DROPPED", "x", 1);
  const absl::StatusOr<ProgramEnd> without =
      RunProgram({"sh", "-c", "echo ${FTUNE_TEST_DROPPED-none} ${HOME:+home}"},
                 [](std::string_view name) { return name == "FTUNE_TEST_DROPPED"; });
  CHECK(without->output == "none home\n");
}

}  // namespace
}  // namespace ftune
