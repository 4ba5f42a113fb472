#include "parallel/comm/gloo_transport.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/comm/communicator.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/parallel/conformance.h"
#include "tests/unit/parallel/gloo_ranks.h"
#include "tests/unit/parallel/mixed_calls.h"
#include "tests/unit/parallel/processes.h"
#include "tests/unit/parallel/transport_checks.h"

namespace ftune {
namespace {

void RunGloo(int ranks, const std::function<void(Communicator&)>& run) {
  RunGlooTransports(ranks, [&](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    run(comm);
  });
}

template <class T>
Buffer View(std::vector<T>& values, DType dtype) {
  return {reinterpret_cast<std::byte*>(values.data()), static_cast<int64_t>(values.size()), dtype, {}};
}

Buffer View(std::vector<float>& values) { return View(values, DType::kF32); }

// Ranks as processes, of which run() gives the exit code. Returns when all have joined.
std::unique_ptr<RankProcesses> Fork(const TempFolder& folder, int ranks,
                                    const std::function<int(Communicator&)>& run) {
  auto processes = std::make_unique<RankProcesses>(ranks, [&](int rank) {
    auto transport = JoinGloo(LoopbackOptions(folder.path(), rank, ranks));
    if (!transport.ok()) return 100;
    (*transport)->set_timeout(absl::Seconds(20));
    Communicator comm(*std::move(transport));
    FolderStore(folder.path()).Set(StrCat("joined/", rank), "").IgnoreError();
    return run(comm);
  });
  for (int r = 0; r < ranks; ++r)
    CHECK(FolderStore(folder.path()).Get(StrCat("joined/", r), absl::Seconds(20)).ok());
  return processes;
}

TEST_CASE("gloo: conformance") {
  for (const int n : {2, 3, 4}) {
    RunGloo(n, [&](Communicator& comm) {
      CHECK(StrJoin(Conform(comm, {.memory = ConformanceOptions::Memory::kMixed}), "; ") == "");
    });
  }
}

TEST_CASE("gloo: collectives between processes, bit for bit") {
  const TempFolder folder;
  const auto processes = Fork(folder, 3, [](Communicator& comm) {
    const std::string failures = TransportChecks(comm, {3}).Run();
    return ReportFailures(comm.rank(), failures.empty() ? std::vector<std::string>() : std::vector{failures});
  });
  CHECK(processes->Wait() == "0 0 0");
}

TEST_CASE("gloo: groups of a group, at the same time and on the same ranks") {
  RunGloo(4, [](Communicator& world) {
    const int me = world.rank();
    auto pair = world.Split(me % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3});
    REQUIRE(pair.ok());
    CHECK(TransportChecks(**pair, {2}).Run() == "");
    auto all = world.Split({0, 1, 2, 3}), again = world.Split({0, 1, 2, 3});
    REQUIRE(all.ok());
    REQUIRE(again.ok());
    // Ranks begin them in any order.
    std::vector<float> x(100000, 1.0f), y(100000, 2.0f);
    Pending first = (me % 2 == 0 ? **all : **again).Start(Call::AllReduce(View(me % 2 == 0 ? x : y)));
    Pending second = (me % 2 == 0 ? **again : **all).Start(Call::AllReduce(View(me % 2 == 0 ? y : x)));
    CHECK(first.Wait().ok());
    CHECK(second.Wait().ok());
    CHECK(x == std::vector<float>(100000, 4.0f));
    CHECK(y == std::vector<float>(100000, 8.0f));
  });
}

TEST_CASE("gloo: a different call on one rank is an error that names both, at once") {
  const absl::Time begin = absl::Now();
  for (const int64_t count : {8, 100000}) {  // gloo itself would end the process
    RunGloo(3, [&](Communicator& comm) {
      std::vector<float> x(comm.rank() == 1 ? count : count + 1);
      const absl::Status status = comm.Run(Call::AllReduce(View(x)));
      CHECK(NotSaid(status, StrCat(count, " elements) #0 on rank 1"), StrCat(count + 1, " elements)")) == "");
      CHECK(comm.Run(Call::Barrier()) == status);  // it stays
    });
  }
  RunGloo(2, [](Communicator& comm) {
    std::vector<float> x(10);
    const absl::Status status =
        comm.rank() == 0 ? comm.Run(Call::Send(View(x), 1)) : comm.Run(Call::Broadcast(View(x), 0));
    CHECK(NotSaid(status, "send(to rank 1, f32, 10 elements) #0 on rank 0",
                  "broadcast(from rank 0, f32, 10 elements) #0 on rank 1") == "");
  });
  RunGloo(2, [](Communicator& comm) {
    std::vector<float> x(10);
    CHECK(NotSaid(comm.Run(Call::Send(View(x), 1 - comm.rank())), "send", "rank 0", "rank 1") == "");
  });
  RunGloo(2, [](Communicator& comm) {
    std::vector<float> x(10), y(10);
    const int64_t expected = comm.rank() == 0 ? 3 : 4;
    CHECK(NotSaid(comm.Run(Call::AllToAll(View(x), {5, 5}, View(y), {5, expected})), "elements that rank") ==
          "");
  });
  CHECK(absl::Now() - begin < absl::Seconds(15));
}

TEST_CASE("gloo: calls that wait for each other are an error at once") {
  for (const WrongOrder& order : WrongOrders()) {
    if (order.of_three) continue;
    RunGloo(3, [&](Communicator& comm) { CHECK(CheckWrongOrder(comm, order) == ""); });
  }
}

TEST_CASE("gloo: sends and receives among collectives") {
  RunGloo(4, [&](Communicator& comm) { CHECK(RunMixedCalls(comm, 1, 400) == ""); });
}

TEST_CASE("gloo: who does not come is named by all who waited") {
  RunGloo(3, [](Communicator& world) {
    world.set_timeout(absl::Milliseconds(300));
    if (world.rank() == 1) {
      absl::SleepFor(absl::Seconds(1));
      return;
    }
    std::vector<float> x(100000);
    const absl::Status status = world.Run(Call::AllReduce(View(x)));
    CHECK(NotSaid(status, "rank 1: it did not come to all_reduce") == "");
    CHECK(ExitCodeOf(status) == static_cast<int>(ExitCode::kTimeout));
    CHECK(!world.Run(Call::Barrier()).ok());
  });
}

TEST_CASE("gloo: messages of a group name ranks of the world") {
  RunGloo(3, [](Communicator& world) {
    if (world.rank() == 0) {
      absl::SleepFor(absl::Seconds(1));
      return;
    }
    auto part = world.Split({1, 2});
    REQUIRE(part.ok());
    (*part)->set_timeout(absl::Milliseconds(200));
    if (world.rank() == 2) {
      absl::SleepFor(absl::Milliseconds(600));
      return;
    }
    CHECK(NotSaid((*part)->Run(Call::Barrier()), "rank 2: it did not come") == "");
  });
}

TEST_CASE("gloo: a rank that is killed is named by the others") {
  const auto run = [](Communicator& comm) {
    std::vector<float> x(1'000'000, 1.0f);
    while (true) {
      const absl::Status status = comm.Run(Call::AllReduce(View(x)));
      if (!status.ok())
        return Contains(std::string(status.message()), "rank 1: its connection was closed") ? 7 : 8;
    }
  };
  const TempFolder folder;
  const auto processes = Fork(folder, 3, run);
  absl::SleepFor(absl::Milliseconds(300));
  processes->Signal(1, SIGKILL);
  CHECK(processes->Wait() == "7 137 7");
}

TEST_CASE("gloo: a rank that is stopped is found by the time-out") {
  const auto run = [](Communicator& comm) {
    comm.set_timeout(absl::Milliseconds(700));
    std::vector<float> x(1'000'000, 1.0f);
    while (true) {
      const absl::Status status = comm.Run(Call::AllReduce(View(x)));
      if (!status.ok()) return Contains(std::string(status.message()), "rank 0: it did not come") ? 7 : 8;
    }
  };
  const TempFolder folder;
  const auto processes = Fork(folder, 3, run);
  absl::SleepFor(absl::Milliseconds(300));
  processes->Signal(0, SIGSTOP);
  CHECK(processes->Wait(1) == 7);
  CHECK(processes->Wait(2) == 7);
}

TEST_CASE("gloo: Abort ends the waits of all ranks with its status") {
  RunGloo(3, [](Communicator& comm) {
    std::thread other;
    if (comm.rank() == 0) absl::SleepFor(absl::Milliseconds(500));  // the others wait for it
    if (comm.rank() == 2) {
      other = std::thread([&] {
        absl::SleepFor(absl::Milliseconds(200));
        comm.Abort(UserError(ExitCode::kNotFinite, {.message = "the loss is not finite"}));
      });
    }
    const absl::Status status = comm.Run(Call::Barrier());
    CHECK(NotSaid(status, "the loss is not finite") == "");
    CHECK(ExitCodeOf(status) == static_cast<int>(ExitCode::kNotFinite));
    if (other.joinable()) other.join();
  });
}

TEST_CASE("gloo: who does not join is named, and so is an address of another host") {
  const TempFolder folder;
  GlooOptions options = LoopbackOptions(folder.path(), 0, 2);
  options.timeout = absl::Milliseconds(300);
  options.names = {4, 6};
  const auto alone = JoinGloo(options);
  CHECK(NotSaid(alone.status(), "rank 6: it did not join") == "");
  CHECK(ExitCodeOf(alone.status()) == static_cast<int>(ExitCode::kTimeout));
  options.address = "192.0.2.1";
  CHECK(NotSaid(JoinGloo(options).status(), "192.0.2.1") == "");
}

}  // namespace
}  // namespace ftune
