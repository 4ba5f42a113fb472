#include "base/file_state.h"

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

TEST_CASE("a file that has another's number is another file") {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "file";
  CHECK(StateOf(path) == std::nullopt);
  std::ofstream(path) << "one";
  const std::optional<FileState> before = StateOf(path);
  REQUIRE(before);
  CHECK(StateOf(path) == before);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // longer than the clock of files ticks
  std::ofstream(path) << "two";                                // in the same file, with the same number
  const std::optional<FileState> after = StateOf(path);
  REQUIRE(after);
  CHECK(after->number == before->number);
  CHECK(after != before);
}

}  // namespace
}  // namespace ftune
