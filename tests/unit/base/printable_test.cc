#include "base/printable.h"

#include <doctest/doctest.h>

namespace ftune {
namespace {

TEST_CASE("control bytes are shown, not sent") {
  CHECK(Printable("F0.0") == "F0.0");
  CHECK(Printable("\x1b[31m\x7f\t\r\n") == "\\x1b[31m\\x7f\\t\\r\\n");
  CHECK(Printable(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(Printable("grün") == "grün");
}

TEST_CASE("long text is cut between characters") {
  CHECK(Printable("abcd", 4) == "abcd");
  CHECK(Printable("abcde", 4) == "abcd...");
  CHECK(Printable("abüd", 3) == "ab...");
  CHECK(Printable("abüd", 4) == "abü...");
  CHECK(Printable("\xbf\xbf\xbf", 1) == "...");
}

}  // namespace
}  // namespace ftune
