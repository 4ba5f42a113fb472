// Whom to blame where calls between hosts end by their time-out. A rank that waits in vain may wait for one
// that itself waits in vain, a call behind or in another group; so each says what it waits for, and all come
// to the same from what all have said.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace ftune {

// What one rank waits for.
struct LateReport {
  int rank = 0;
  uint64_t place = 0;     // the group, and whether it is a collective
  uint64_t sequence = 0;  // of the call there
  std::vector<int> missing;
  std::string call;  // for people
  absl::Duration waited;

  std::string Encode() const;
  static std::optional<LateReport> Decode(std::string_view text);
};

struct Blame {
  int rank = 0;
  std::string call;  // the first that it did not come to
  absl::Duration waited;
};

// The rank most of whose connections fail. A report that another rank is missing says nothing of the
// connection between the two where that one is in an earlier call, or in another group's. Of equals one that
// says nothing itself, then the one with the highest number: rank 0 has the store, which the others reach.
// Nothing where nobody is missing.
std::optional<Blame> BlameFor(const std::vector<LateReport>& reports);

}  // namespace ftune
