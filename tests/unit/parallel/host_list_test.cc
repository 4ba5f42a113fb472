#include "parallel/launch/host_list.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace ftune {
namespace {

using Hosts = std::vector<HostSlots>;

const Hosts kHosts = {{"w-0", 4}, {"w-1", 4}, {"w-2", 2}};

Hosts Parsed(const std::string& text) {
  const absl::StatusOr<Hosts> hosts = ParseHostFile(text, "hosts");
  INFO(hosts.status().message());
  REQUIRE(hosts.ok());
  return *hosts;
}

std::string Refused(const std::string& text) {
  const absl::StatusOr<Hosts> hosts = ParseHostFile(text, "hosts");
  CHECK(ExitCodeOf(hosts.status()) == 2);
  return std::string(hosts.status().message());
}

Hosts Left(const HostFilter& filter) {
  const absl::StatusOr<Hosts> hosts = FilterHosts(kHosts, filter);
  INFO(hosts.status().message());
  REQUIRE(hosts.ok());
  return *hosts;
}

bool Begins(const std::string& text, const std::string& start) {
  INFO(text);
  CHECK(text.starts_with(start));
  return text.starts_with(start);
}

TEST_CASE("a host file") {
  CHECK(Parsed("w-0 slots=4\nw-1 slots=4\nw-2 slots=2\n") == kHosts);
  CHECK(Parsed("# ours\r\n\r\n  w-0\tslots=4  # the first\r\n\nw-1   slots=4\r\nw-2 slots=2") == kHosts);
  CHECK(Parsed("alone\n10.0.0.7 slots=1\nuser.example.org") ==
        Hosts{{"alone", 0}, {"10.0.0.7", 1}, {"user.example.org", 0}});
  CHECK(Parsed("#w-0 slots=4\nw-1#slots=8") == Hosts{{"w-1", 0}});
}

TEST_CASE("what is no host file") {
  CHECK(
      Begins(Refused("a slots=1\nb slots 2\n"), "hosts:2: error: found 'b slots 2', expected a host's name"));
  for (const char* line : {"a slots=", "a slots=0", "a slots=-1", "a slots=4x", "a slots=99999", "a 4",
                           "a b c", "-oProxyCommand=x slots=1", "a,b slots=1", "a slots=1 max_slots=2",
                           "a slots = 1", "\x01 slots=1", "slots=4"}) {
    CHECK(Begins(Refused(std::string("# first\n\n") + line), "hosts:3: error: "));
  }
  CHECK(Begins(Refused("a slots=1\n\na slots=2"),
               "hosts:3: error: the host 'a' is there twice, first on line 1"));
  for (const char* text : {"", "\n\n", "# only words\n", " \t\r\n"}) {
    CHECK(Begins(Refused(text), "hosts: error: there is no host"));
  }
  const absl::StatusOr<Hosts> missing = ReadHostFile("/nowhere/hosts");
  CHECK(ExitCodeOf(missing.status()) == 2);
  CHECK(Begins(std::string(missing.status().message()), "/nowhere/hosts: error: "));
}

TEST_CASE("a part of the hosts") {
  CHECK(Left({}) == kHosts);
  CHECK(Left({.include = "w-1"}) == Hosts{{"w-1", 4}});
  // In the order of the list, whatever that of the filter.
  CHECK(Left({.include = "w-2@w-0:2,0"}) == Hosts{{"w-0", 2, {0, 2}}, {"w-2", 2}});
  CHECK(Left({.include = "w-2:0,1"}) == Hosts{{"w-2", 2}});
  CHECK(Left({.exclude = "w-1"}) == Hosts{{"w-0", 4}, {"w-2", 2}});
  CHECK(Left({.exclude = "w-0:1@w-2"}) == Hosts{{"w-0", 3, {0, 2, 3}}, {"w-1", 4}});
  CHECK(Left({.exclude = "w-2:0,1"}) == Hosts{{"w-0", 4}, {"w-1", 4}});
}

TEST_CASE("no part of the hosts") {
  const auto wrong = [](const HostFilter& filter) {
    const absl::StatusOr<Hosts> hosts = FilterHosts(kHosts, filter);
    CHECK(ExitCodeOf(hosts.status()) == 2);
    return DetailOf(hosts.status()).value_or(ErrorDetail()).key;
  };
  for (const char* text :
       {"w-3", "w-0:4", "w-0:", "w-0:x", "w-0:0,", "@", "w-0@", "w-0@w-0", "w-0:-1", ",", " w-0"}) {
    CAPTURE(text);
    CHECK(wrong({.include = text}) == "launch.include");
    CHECK(wrong({.exclude = text}) == "launch.exclude");
  }
  CHECK(wrong({.exclude = "w-0@w-1@w-2"}) == "launch.exclude");
  CHECK(wrong({.include = "w-0", .exclude = "w-1"}) == "launch.exclude");
  CHECK_FALSE(FilterHosts({{"w-0", 0}}, {.include = "w-0:0"}).ok());
}

}  // namespace
}  // namespace ftune
