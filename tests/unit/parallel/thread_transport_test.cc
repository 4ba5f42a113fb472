#include "parallel/comm/thread_transport.h"

#include <doctest/doctest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "parallel/comm/gather_text.h"
#include "parallel/mesh.h"
#include "tests/unit/parallel/mixed_calls.h"
#include "tests/unit/parallel/thread_ranks.h"

namespace ftune {
namespace {

template <class T>
Buffer View(std::vector<T>& values, DType dtype) {
  return {reinterpret_cast<std::byte*>(values.data()), static_cast<int64_t>(values.size()), dtype, {}};
}

TEST_CASE("thread ranks: collectives") {
  for (int n : {1, 2, 3, 4}) {
    RunRanks(n, [&](Communicator& comm) {
      std::vector<float> x(1000);
      std::iota(x.begin(), x.end(), static_cast<float>(comm.rank()));
      CHECK(comm.Start(Call::AllReduce(View(x, DType::kF32))).Wait().ok());
      for (int i = 0; i < 1000; ++i) CHECK(x[i] == n * i + n * (n - 1) / 2);

      std::vector<int64_t> counts(n);
      std::iota(counts.begin(), counts.end(), 0);  // uneven, the first has nothing
      const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
      std::vector<float> all(total), mine(comm.rank(), static_cast<float>(comm.rank()));
      CHECK(comm.Run(Call::AllGather(View(mine, DType::kF32), View(all, DType::kF32), counts)).ok());
      for (int r = 0, at = 0; r < n; ++r) {
        for (int i = 0; i < r; ++i) CHECK(all[at++] == r);
      }
      std::vector<float> share(comm.rank());
      CHECK(comm.Run(Call::ReduceScatter(View(all, DType::kF32), View(share, DType::kF32), counts)).ok());
      for (float v : share) CHECK(v == n * comm.rank());
      CHECK(*comm.AllReduce(double{1.0 + comm.rank()}, ReduceOp::kMax) == n);
      CHECK(*comm.AllReduce(int64_t{1}) == n);
    });
  }
}

TEST_CASE("thread ranks: texts of all on the first") {
  RunRanks(3, [](Communicator& comm) {
    const absl::StatusOr<std::vector<std::string>> all = GatherText(comm, std::string(comm.rank() * 5, 'a'));
    REQUIRE(all.ok());
    CHECK(*all == (comm.rank() == 0 ? std::vector<std::string>{"", "aaaaa", "aaaaaaaaaa"}
                                    : std::vector<std::string>()));
  });
}

TEST_CASE("thread ranks: a different call on one of them is an error that names both") {
  RunRanks(3, [](Communicator& comm) {
    std::vector<float> x(comm.rank() == 1 ? 8 : 9);
    const absl::Status status = comm.Run(Call::AllReduce(View(x, DType::kF32)));
    REQUIRE(!status.ok());
    CHECK(status.message().find("8 elements") != std::string::npos);
    CHECK(status.message().find("rank 1") != std::string::npos);
  });
}

TEST_CASE("thread ranks: calls that wait for each other are an error at once") {
  for (const WrongOrder& order : WrongOrders()) {
    RunRanks(3, [&](Communicator& comm) {
      comm.set_timeout(absl::Seconds(20));
      CHECK(CheckWrongOrder(comm, order) == "");
    });
  }
}

TEST_CASE("thread ranks: sends and receives among collectives") {
  for (const uint64_t seed : {1, 2, 3}) {
    RunRanks(4, [&](Communicator& comm) {
      comm.set_timeout(absl::Seconds(20));
      CHECK(RunMixedCalls(comm, seed, 400) == "");
    });
  }
}

TEST_CASE("thread ranks: a call that was started says when it is done, also after an error") {
  RunRanks(2, [](Communicator& comm) {
    std::vector<float> x(10);
    CHECK(Pending().done());
    Pending first = comm.rank() == 0 ? comm.Start(Call::Send(View(x, DType::kF32), 1)) : Pending();
    absl::SleepFor(absl::Milliseconds(50));
    if (comm.rank() == 0) CHECK_FALSE(first.done());  // nobody receives
    if (comm.rank() == 1) absl::SleepFor(absl::Milliseconds(100));
    if (comm.rank() == 1) first = comm.Start(Call::Receive(View(x, DType::kF32), 0));
    const absl::Time end = absl::Now() + absl::Seconds(10);
    while (!first.done() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
    CHECK(first.done());
    CHECK(first.Wait().ok());
    comm.Abort(absl::InternalError("over"));
    Pending late = comm.Start(Call::Barrier());
    while (!late.done() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
    CHECK(late.done());
    CHECK_FALSE(late.Wait().ok());
  });
}

TEST_CASE("thread ranks: who does not come is named") {
  RunRanks(2, [](Communicator& comm) {
    if (comm.rank() == 1) return;
    comm.set_timeout(absl::Milliseconds(50));
    const absl::Status status = comm.Run(Call::Barrier());
    CHECK(status.message().find("rank 1") != std::string::npos);
    CHECK(!comm.Run(Call::Barrier()).ok());
  });
}

TEST_CASE("mesh: tensor is innermost, pipeline outermost") {
  const MeshShape shape = {.tensor = 2, .data = 3, .pipeline = 2};
  CHECK(shape.ranks() == 12);
  CHECK(shape.GroupOf(0, MeshAxis::kTensor) == std::vector{0, 1});
  CHECK(shape.GroupOf(3, MeshAxis::kData) == std::vector{1, 3, 5});
  CHECK(shape.GroupOf(8, MeshAxis::kPipeline) == std::vector{2, 8});
  CHECK(shape.Describe() == "tensor 2 × data 3 × pipeline 2");
  CHECK(MeshShape().Describe() == "1 rank");
}

}  // namespace
}  // namespace ftune
