#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace ftune {

struct ShmOptions {
  int rank = 0;
  int size = 1;
  // The run, the same on all its ranks and of no other run on this host; at most 80 characters.
  std::string name;
  // Of joining, and of each wait within a call until set_timeout.
  absl::Duration timeout = absl::Minutes(5);
  // A rank of which nothing is heard for so long is lost. Time in which this process was stopped itself does
  // not count.
  absl::Duration heartbeat_timeout = absl::Seconds(30);
  // What errors call the ranks: those of the run, where it has more hosts. Empty: 0, 1, …
  std::vector<int> rank_names;

  int NameOf(int of) const { return rank_names.empty() ? of : rank_names[of]; }
};

}  // namespace ftune
