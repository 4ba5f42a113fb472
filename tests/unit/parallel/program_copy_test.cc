// How the program is brought to many hosts.
#include "parallel/launch/program_copy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

// A host that has the program: notes how many others are being asked at the same time.
constexpr char kHost[] = R"sh(
touch "$1/asked-$$"
sleep 0.2
ls "$1" | grep -c asked >> "$1/counts"
rm "$1/asked-$$"
echo "ftune has the program: /on/host-$2"
)sh";

TEST_CASE("the program is brought to a few hosts at once") {
  const TempFolder folder;
  std::vector<std::vector<std::string>> commands;
  for (int host = 0; host < 7; ++host) {
    commands.push_back({"sh", "-c", kHost, "sh", folder.path().string(), StrCat(host)});
  }
  const std::vector<absl::StatusOr<std::string>> places = CopyProgram(commands, 2);
  for (size_t host = 0; host < commands.size(); ++host) {
    REQUIRE(places[host].ok());
    CHECK(*places[host] == StrCat("/on/host-", host));
  }
  std::ifstream counts(folder.path() / "counts");
  int most = 0, asked = 0;
  for (int count = 0; counts >> count; ++asked) most = std::max(most, count);
  CHECK(asked == 7);
  CHECK(most == 2);
}

}  // namespace
}  // namespace ftune
