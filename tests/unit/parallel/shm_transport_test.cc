#include "parallel/comm/shm_transport.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/unit/parallel/conformance.h"
#include "tests/unit/parallel/processes.h"

namespace ftune {
namespace {

ShmOptions OptionsFor(int rank, int size) {
  static int runs = 0;  // the same in all processes of a run, which are forked from this one
  return {.rank = rank,
          .size = size,
          .name = StrCat("test-", getppid(), "-", runs),
          .timeout = absl::Seconds(20)};
}

TEST_CASE("shared memory: every collective as between threads") {
  using enum ConformanceOptions::Memory;
  for (const int n : {2, 3, 4}) {
    for (const auto memory : {kHeap, kAllocated, kMixed}) {
      RankProcesses ranks(n, [&](int rank) {
        auto transport = JoinSharedMemory(OptionsFor(rank, n));
        if (!transport.ok()) return ReportFailures(rank, {std::string(transport.status().message())});
        Communicator comm(*std::move(transport));
        return ReportFailures(rank, Conform(comm, {.memory = memory}));
      });
      CHECK(ranks.Wait() == std::vector<int>(n, 0));
    }
  }
}

}  // namespace
}  // namespace ftune
