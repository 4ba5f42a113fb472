// The hosts that ranks run on, and how many on each. Ranks are numbered along the list: those of a host
// follow one another.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

struct HostSlots {
  std::string name;
  int slots = 0;  // ranks; 0: not said
  // The numbers of the host's devices that the ranks use, ascending, one a rank; empty: the first ones.
  std::vector<int> devices = {};

  bool operator==(const HostSlots&) const = default;
};

// DeepSpeed's host file: `NAME slots=N` a line, comments from #. A name alone leaves the slots to the recipe.
// Errors, with exit code 2, name the file and the line: what is no such line, a host that is there twice, a
// file without hosts.
absl::StatusOr<std::vector<HostSlots>> ParseHostFile(std::string_view text, const std::string& file);
// Of a file; one that cannot be read is an error, never the host that ftune runs on.
absl::StatusOr<std::vector<HostSlots>> ReadHostFile(const std::string& file);

// Which part of a list is used, as DeepSpeed has it: hosts joined by @, each with all its slots or those
// after a colon (`node1@node2:0,2`). `include` leaves these and nothing else, `exclude` all but these; empty:
// not given. Errors, with exit code 2 and the key launch.include or launch.exclude: both are given, a host or
// slot is not in the list, nothing is left.
struct HostFilter {
  std::string include;
  std::string exclude;
};
absl::StatusOr<std::vector<HostSlots>> FilterHosts(std::vector<HostSlots> hosts, const HostFilter& filter);

}  // namespace ftune
