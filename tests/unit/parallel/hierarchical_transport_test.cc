#include "parallel/comm/hierarchical_transport.h"

#include <doctest/doctest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "base/error.h"
#include "parallel/comm/gloo_transport.h"
#include "parallel/comm/shm_transport.h"
#include "parallel/comm/thread_transport.h"
#include "parallel/mesh.h"
#include "tests/unit/parallel/gloo_ranks.h"
#include "tests/unit/parallel/processes.h"
#include "tests/unit/parallel/transport_checks.h"

namespace ftune {
namespace {

// Hosts whose ranks are joined as threads, and with other hosts over gloo.
void RunHosts(const Hosts& hosts, const std::function<void(Communicator&)>& run) {
  std::vector<std::unique_ptr<Transport>> inner;
  for (const int ranks : hosts) {
    for (auto& transport : MakeThreadTransports(ranks)) inner.push_back(std::move(transport));
  }
  RunGlooTransports(static_cast<int>(inner.size()), [&](std::unique_ptr<Transport> outer) {
    const int rank = outer->rank();
    auto transport = MakeHierarchicalTransport(hosts, std::move(inner[rank]), std::move(outer));
    REQUIRE(transport.ok());
    (*transport)->set_timeout(absl::Seconds(20));
    Communicator comm(*std::move(transport));
    run(comm);
  });
}

TEST_CASE("hierarchy: collectives, bit for bit") {
  for (const Hosts& hosts : {Hosts{2, 2}, Hosts{2, 1, 1}, Hosts{1, 2}}) {
    CAPTURE(hosts.size());
    RunHosts(hosts, [&](Communicator& comm) { CHECK(TransportChecks(comm, hosts).Run() == ""); });
  }
}

TEST_CASE("hierarchy: groups inside a host, across hosts, and both") {
  RunHosts({2, 2}, [](Communicator& world) {
    const int me = world.rank();
    auto inside = world.Split(me < 2 ? std::vector{0, 1} : std::vector{2, 3});
    auto across = world.Split(me % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3});
    REQUIRE(inside.ok());
    REQUIRE(across.ok());
    CHECK(TransportChecks(**inside, {2}).Run() == "");
    CHECK(TransportChecks(**across, {2}).Run() == "");
    if (me == 1) return;
    auto both = world.Split({0, 2, 3});
    REQUIRE(both.ok());
    CHECK(TransportChecks(**both, {1, 2}).Run() == "");
  });
}

TEST_CASE("hierarchy: shared memory inside, gloo between; a rank that is killed is named on all hosts") {
  const Hosts hosts = {2, 2};
  const TempFolder folder;
  RankProcesses processes(4, [&](int rank) {
    const int host = rank / 2;
    auto inner = JoinSharedMemory({.rank = rank % 2,
                                   .size = 2,
                                   .name = StrCat("hierarchy-", folder.path().filename().string(), "-", host),
                                   .timeout = absl::Seconds(20),
                                   .rank_names = {2 * host, 2 * host + 1}});
    auto outer = JoinGloo(LoopbackOptions(folder.path(), rank, 4));
    if (!inner.ok() || !outer.ok()) return 100;
    auto transport = MakeHierarchicalTransport(hosts, *std::move(inner), *std::move(outer));
    if (!transport.ok()) return 101;
    Communicator comm(*std::move(transport));
    comm.set_timeout(absl::Seconds(20));
    const std::string failures = TransportChecks(comm, hosts).Run();
    if (!failures.empty()) return ReportFailures(rank, {failures});
    FolderStore(folder.path()).Set(StrCat("checked/", rank), "").IgnoreError();
    std::vector<float> x(1'000'000, 1.0f);
    while (true) {
      const absl::Status status =
          comm.Run(Call::AllReduce({reinterpret_cast<std::byte*>(x.data()), std::ssize(x), DType::kF32, {}}));
      if (status.ok()) continue;
      std::fprintf(stderr, "%s", NotSaid(status, "rank 3").c_str());
      return NotSaid(status, "rank 3").empty() ? 7 : 8;
    }
  });
  for (int r = 0; r < 4; ++r)
    REQUIRE(FolderStore(folder.path()).Get(StrCat("checked/", r), absl::Seconds(60)).ok());
  processes.Signal(3, SIGKILL);
  CHECK(processes.Wait() == "7 7 7 137");
}

TEST_CASE("hierarchy: a mesh on it") {
  RunHosts({2, 2}, [](Communicator& world) {
    auto all = world.Split({0, 1, 2, 3});
    REQUIRE(all.ok());
    auto mesh = Mesh::Create({.tensor = 2, .data = 2}, *std::move(all));
    REQUIRE(mesh.ok());
    CHECK(*(*mesh)->axis(MeshAxis::kTensor).AllReduce(int64_t{1} << world.rank()) ==
          (world.rank() < 2 ? 0b0011 : 0b1100));
    CHECK(*(*mesh)->axis(MeshAxis::kData).AllReduce(int64_t{1} << world.rank()) ==
          (world.rank() % 2 == 0 ? 0b0101 : 0b1010));
  });
}

TEST_CASE("hierarchy: hosts that make different calls are told so, with the calls as they were made") {
  for (const Hosts& hosts : {Hosts{2, 2}, Hosts{2, 1}}) {
    RunHosts(hosts, [&](Communicator& comm) {
      std::vector<float> x(comm.rank() < 2 ? 1000 : 1001);
      const Buffer buffer = {
          reinterpret_cast<std::byte*>(x.data()), static_cast<int64_t>(x.size()), DType::kF32, {}};
      const absl::Status status = comm.Run(Call::AllReduce(buffer));
      CHECK(NotSaid(status, "all_reduce(sum, f32, 1000 elements) #0", "1001 elements") == "");
      CHECK(!comm.Run(Call::Barrier()).ok());
    });
  }
}

TEST_CASE("hierarchy: all hosts hear of what happens inside one") {
  RunHosts({2, 2}, [](Communicator& comm) {
    if (comm.rank() == 3) {
      absl::SleepFor(absl::Milliseconds(200));
      comm.Abort(UserError(ExitCode::kNotFinite, {.message = "the loss is not finite"}));
      return;
    }
    CHECK(NotSaid(comm.Run(Call::Barrier()), "the loss is not finite") == "");
  });
}

}  // namespace
}  // namespace ftune
