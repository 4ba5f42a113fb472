#include "parallel/comm/shm_transport.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "tests/unit/parallel/conformance.h"
#include "tests/unit/parallel/mixed_calls.h"
#include "tests/unit/parallel/processes.h"

namespace ftune {
namespace {

struct ShmRun : ShmOptions {
  std::shared_ptr<ProcessGate> all_joined;
};

// Called before the ranks of a run are forked.
ShmRun NewRun(int size) {
  static int runs = 0;
  const ShmOptions options = {
      .size = size, .name = StrCat("test-", getpid(), "-", ++runs), .timeout = absl::Seconds(20)};
  return {options, std::make_shared<ProcessGate>(size)};
}

// Comes back when all have joined: who still joins hears of others' errors there.
std::unique_ptr<Communicator> Join(const ShmRun& run, int rank) {
  ShmOptions options = run;
  options.rank = rank;
  absl::StatusOr<std::unique_ptr<Transport>> transport = JoinSharedMemory(options);
  if (transport.ok()) {
    run.all_joined->Pass();
    return std::make_unique<Communicator>(*std::move(transport));
  }
  std::fprintf(stderr, "rank %d: %s\n", rank, std::string(transport.status().message()).c_str());
  _exit(99);
}

// An error of which the message has all `parts`.
std::vector<std::string> Expect(const absl::Status& status, ExitCode code,
                                const std::vector<std::string>& parts) {
  const std::string message(status.message());
  std::vector<std::string> failures;
  if (ExitCodeOf(status) != static_cast<int>(code)) failures.push_back(StrCat("another error: ", message));
  for (const std::string& part : parts) {
    if (message.find(part) == std::string::npos) {
      failures.push_back(StrCat("no '", part, "' in: ", message));
    }
  }
  return failures;
}

Buffer View(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), static_cast<int64_t>(values.size()), DType::kF32, {}};
}

// All but the rank that was lost end with `code`.
void CheckEnds(RankProcesses& ranks, int size, int lost, int code) {
  for (int rank = 0; rank < size; ++rank) {
    if (rank != lost) CHECK(ranks.Wait(rank) == code);
  }
}

int OpenDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

int64_t MappedPieces() {
  std::ifstream maps("/proc/self/maps");
  int64_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find("memfd:ftune") != std::string::npos;
  return count;
}

TEST_CASE("shared memory: every collective as between threads") {
  using enum ConformanceOptions::Memory;
  for (const int n : {2, 3, 4}) {
    for (const auto memory : {kHeap, kAllocated, kMixed}) {
      const ShmRun run = NewRun(n);
      RankProcesses ranks(n, [&](int rank) {
        const auto comm = Join(run, rank);
        return ReportFailures(rank, Conform(*comm, {.memory = memory}));
      });
      CHECK(ranks.Wait() == StrJoin(std::vector<int>(n, 0), " "));
    }
  }
}

TEST_CASE("shared memory: a different call is an error that names both ranks, by their names in the run") {
  ShmRun run = NewRun(3);
  run.rank_names = {4, 5, 6};
  RankProcesses ranks(3, [&](int rank) {
    const auto world = Join(run, rank);
    if (rank == 0)
      return ReportFailures(rank,
                            Expect(world->Run(Call::Barrier()), ExitCode::kRankFailed, {"rank 5", "rank 6"}));
    const auto part = world->Split({1, 2}).value();
    std::vector<float> x(rank == 1 ? 8 : 9);
    const absl::Status status = part->Run(Call::Broadcast(View(x), 1));
    // It stays.
    if (part->Run(Call::Barrier()) != status) return 2;
    return ReportFailures(
        rank, Expect(status, ExitCode::kRankFailed,
                     {"broadcast(from rank 6, f32, 8 elements) #0 on rank 5", "9 elements", "on rank 6"}));
  });
  CHECK(ranks.Wait() == "0 0 0");
}

TEST_CASE("shared memory: a send and a receive that differ") {
  const ShmRun run = NewRun(2);
  RankProcesses ranks(2, [&](int rank) {
    const auto comm = Join(run, rank);
    std::vector<float> x(rank == 0 ? 1000 : 2000);
    const absl::Status status = comm->Run(rank == 0 ? Call::Send(View(x), 1) : Call::Receive(View(x), 0));
    return ReportFailures(
        rank, Expect(status, ExitCode::kRankFailed, {"1000 elements", "2000 elements", "rank 0", "rank 1"}));
  });
  CHECK(ranks.Wait() == "0 0");
}

TEST_CASE("shared memory: calls that wait for each other are an error at once") {
  for (const WrongOrder& order : WrongOrders()) {
    const ShmRun run = NewRun(3);
    RankProcesses ranks(3, [&](int rank) {
      const auto comm = Join(run, rank);
      const std::string wrong = CheckWrongOrder(*comm, order);
      return wrong.empty() ? 0 : ReportFailures(rank, {wrong});
    });
    CHECK(ranks.Wait() == "0 0 0");
  }
}

TEST_CASE("shared memory: sends and receives among collectives") {
  const ShmRun run = NewRun(4);
  RankProcesses ranks(4, [&](int rank) {
    const auto comm = Join(run, rank);
    for (const uint64_t seed : {1, 2, 3}) {
      const std::string wrong = RunMixedCalls(*comm, seed, 400);
      if (!wrong.empty()) return ReportFailures(rank, {wrong});
    }
    return 0;
  });
  CHECK(ranks.Wait() == "0 0 0 0");
}

// Of this process, of a kind of mapping; resident, in KiB.
int64_t ResidentOf(const std::string& name) {
  std::ifstream maps("/proc/self/smaps");
  int64_t total = 0;
  bool counts = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.find('-') < line.find(' ')) counts = line.find(name) != std::string::npos;
    if (counts && line.starts_with("Rss:")) total += std::stoll(line.substr(4));
  }
  return total;
}

TEST_CASE("shared memory: a pair that only sends what is in shared memory takes a few pages") {
  const ShmRun run = NewRun(2);
  RankProcesses ranks(2, [&](int rank) {
    const auto world = Join(run, rank);
    const SharedBytes memory = world->Allocate(4 << 20).value();
    if (!world->Run(Call::Barrier()).ok()) return 2;
    const Buffer all = {memory.data.get(), 4 << 20, DType::kU8, {}};
    const auto send = [&](Communicator& pair) {
      Pending calls[8];
      for (Pending& call : calls) call = pair.Start(rank == 0 ? Call::Send(all, 1) : Call::Receive(all, 0));
      for (Pending& call : calls) {
        if (!call.Wait().ok()) return false;
      }
      return true;
    };
    std::vector<std::unique_ptr<Communicator>> pairs;
    pairs.push_back(world->Split({0, 1}).value());
    if (!send(*pairs.back())) return 3;
    const int64_t before = ResidentOf("memfd:ftune");
    for (int i = 0; i < 10; ++i) {
      pairs.push_back(world->Split({0, 1}).value());
      if (!send(*pairs.back())) return 3;
    }
    const int64_t each = (ResidentOf("memfd:ftune") - before) / 10;  // both ranks' regions
    return each <= 32 ? 0 : 4;
  });
  CHECK(ranks.Wait() == "0 0");
}

TEST_CASE("shared memory: who does not come to a split is named, and the group") {
  ShmRun run = NewRun(3);
  run.rank_names = {4, 5, 6};
  RankProcesses ranks(3, [&](int rank) {
    const auto world = Join(run, rank);
    world->set_timeout(absl::Milliseconds(200));
    if (rank == 1) {
      while (world->status().ok()) absl::SleepFor(absl::Milliseconds(5));
    } else {
      world->Split({0, 1, 2}).status().IgnoreError();
    }
    return ReportFailures(rank,
                          Expect(world->status(), ExitCode::kTimeout,
                                 {"rank 5: it did not come to the making of the group of ranks 4, 5, 6"}));
  });
  CHECK(ranks.Wait() == "0 0 0");
}

TEST_CASE("shared memory: who does not come is named, on all ranks") {
  const ShmRun run = NewRun(3);
  RankProcesses ranks(3, [&](int rank) {
    const auto comm = Join(run, rank);
    if (rank == 1) {
      while (comm->status().ok()) absl::SleepFor(absl::Milliseconds(5));
    } else {
      comm->set_timeout(absl::Milliseconds(rank == 0 ? 100 : 10000));
      comm->Run(Call::Barrier()).IgnoreError();
    }
    return ReportFailures(rank, Expect(comm->status(), ExitCode::kTimeout, {"rank 1", "barrier"}));
  });
  CHECK(ranks.Wait() == "0 0 0");
}

TEST_CASE("shared memory: who never joins is named") {
  ShmRun run = NewRun(3);
  run.timeout = absl::Milliseconds(200);
  for (const int absent : {0, 2}) {
    RankProcesses ranks(3, [&](int rank) {
      if (rank == absent) return 0;
      ShmOptions options = run;
      options.rank = rank;
      return ReportFailures(
          rank, Expect(JoinSharedMemory(options).status(), ExitCode::kTimeout, {StrCat("rank ", absent)}));
    });
    CHECK(ranks.Wait() == "0 0 0");
  }
}

TEST_CASE("shared memory: a killed process is noticed, within a call and without") {
  for (const bool calls : {true, false}) {
    const ShmRun run = NewRun(3);
    RankProcesses ranks(3, [&](int rank) {
      const auto comm = Join(run, rank);
      std::vector<float> x(1 << 20);
      while (comm->status().ok()) {
        if (calls) comm->Run(Call::AllReduce(View(x))).IgnoreError();
        if (!calls) absl::SleepFor(absl::Milliseconds(5));
      }
      return ReportFailures(rank, Expect(comm->status(), ExitCode::kRankFailed, {"rank 1", "died"}));
    });
    absl::SleepFor(absl::Milliseconds(300));
    ranks.Signal(1, SIGKILL);
    CheckEnds(ranks, 3, 1, 0);
  }
}

TEST_CASE("shared memory: a process that is killed while the ranks join") {
  const ShmRun run = NewRun(3);
  RankProcesses ranks(3, [&](int rank) {
    if (rank == 2) absl::SleepFor(absl::Seconds(60));
    ShmOptions options = run;
    options.rank = rank;
    return ReportFailures(
        rank, Expect(JoinSharedMemory(options).status(), ExitCode::kRankFailed, {"rank 1", "died"}));
  });
  absl::SleepFor(absl::Milliseconds(200));
  ranks.Signal(1, SIGKILL);
  CHECK(ranks.Wait(0, absl::Seconds(30)) == 0);
}

TEST_CASE("shared memory: a stopped process is noticed by its silence") {
  ShmRun run = NewRun(3);
  run.heartbeat_timeout = absl::Milliseconds(500);
  RankProcesses ranks(3, [&](int rank) {
    const auto comm = Join(run, rank);
    while (comm->Run(Call::Barrier()).ok()) absl::SleepFor(absl::Milliseconds(1));
    return ReportFailures(
        rank, Expect(comm->status(), ExitCode::kRankFailed, {"rank 2", "nothing was heard", "500ms"}));
  });
  absl::SleepFor(absl::Milliseconds(1000));  // twice the time without an error
  CHECK(ranks.Wait(0, absl::ZeroDuration()) == -1);
  ranks.Signal(2, SIGSTOP);
  CheckEnds(ranks, 3, 2, 0);
}

TEST_CASE("shared memory: stopping all ranks for a while is no loss") {
  ShmRun run = NewRun(2);
  run.heartbeat_timeout = absl::Milliseconds(500);
  RankProcesses ranks(2, [&](int rank) {
    const auto comm = Join(run, rank);
    for (int i = 0; i < 600; ++i) {
      if (const absl::Status s = comm->Run(Call::Barrier()); !s.ok())
        return ReportFailures(rank, {std::string(s.message())});
      absl::SleepFor(absl::Milliseconds(2));
    }
    return 0;
  });
  absl::SleepFor(absl::Milliseconds(200));
  for (const int rank : {0, 1}) ranks.Signal(rank, SIGSTOP);
  absl::SleepFor(absl::Milliseconds(1200));
  for (const int rank : {0, 1}) ranks.Signal(rank, SIGCONT);
  CHECK(ranks.Wait() == "0 0");
}

TEST_CASE("shared memory: an error of one rank is the error of all, in the words of the first") {
  const ShmRun run = NewRun(3);
  RankProcesses ranks(3, [&](int rank) {
    const auto world = Join(run, rank);
    const auto part = rank < 2 ? world->Split({0, 1}).value() : nullptr;
    std::thread other;
    if (rank == 0) {
      other = std::thread([&] {
        absl::SleepFor(absl::Milliseconds(50));
        world->Abort(DataError({.file = "data.jsonl", .line = 7, .message = "not JSON", .hint = "mend it"}));
      });
    }
    std::vector<float> x(10);
    if (rank == 0) part->Run(Call::Receive(View(x), 1)).IgnoreError();
    if (rank > 0) world->Run(Call::Barrier()).IgnoreError();
    if (other.joinable()) other.join();
    if (part && part->status() != world->status()) return 2;
    const std::optional<ErrorDetail> detail = DetailOf(world->status());
    if (!detail || detail->line != 7 || detail->hint != "mend it") return 3;
    return ReportFailures(rank,
                          Expect(world->Run(Call::Barrier()), ExitCode::kData, {"data.jsonl:7", "not JSON"}));
  });
  CHECK(ranks.Wait() == "0 0 0");
}

TEST_CASE("shared memory: who leaves when its calls are done is not dead, unless it is called") {
  const ShmRun run = NewRun(3);
  RankProcesses ranks(3, [&](int rank) {
    auto world = Join(run, rank);
    auto part = rank > 0 ? world->Split({1, 2}).value() : nullptr;
    if (!world->AllReduce(1.0).ok()) return 2;
    if (rank == 0) return 0;  // the destructor leaves
    for (int i = 0; i < 50; ++i) {
      if (!part->AllReduce(1.0).ok()) return 3;
      absl::SleepFor(absl::Milliseconds(5));
    }
    if (!world->status().ok()) return 4;
    part->Run(Call::Barrier()).IgnoreError();  // both are here, before one of them makes an error
    if (rank == 2) return 0;
    return ReportFailures(rank,
                          Expect(world->Run(Call::Barrier()), ExitCode::kRankFailed, {"rank 0", "left"}));
  });
  CHECK(ranks.Wait() == "0 0 0");
}

TEST_CASE("shared memory: groups at once, each in its thread") {
  const ShmRun run = NewRun(4);
  RankProcesses ranks(4, [&](int rank) {
    const auto world = Join(run, rank);
    const auto rows = world->Split(rank < 2 ? std::vector{0, 1} : std::vector{2, 3}).value();
    const auto columns = world->Split(rank % 2 == 0 ? std::vector{0, 2} : std::vector{1, 3}).value();
    // One of another group's memory, where only one rank's buffer is.
    const SharedBytes memory = rows->Allocate(4 << 20).value();
    auto* const shared = reinterpret_cast<float*>(memory.data.get());
    std::vector<float> heap(1 << 19), more(1 << 19);
    const Buffer a = rank < 2 ? View(heap) : Buffer{memory.data.get() + 64, 1 << 19, DType::kF32, {}};
    const Buffer b = View(more);
    for (int i = 0; i < 20; ++i) {
      std::fill_n(reinterpret_cast<float*>(a.data), a.count, static_cast<float>(1 << rank));
      std::fill_n(reinterpret_cast<float*>(b.data), b.count, static_cast<float>(1 << rank));
      Pending first = columns->Start(Call::AllReduce(a));
      Pending second = rows->Start(Call::AllReduce(b));
      if (*world->AllReduce(int64_t{1}) != 4 || !first.Wait().ok() || !second.Wait().ok()) return 2;
      if (reinterpret_cast<float*>(a.data)[a.count - 1] != (rank % 2 == 0 ? 5 : 10)) return 3;
      if (more[100] != (rank < 2 ? 3 : 12)) return 4;
    }
    return shared[0] == 0 ? 0 : 5;
  });
  CHECK(ranks.Wait() == "0 0 0 0");
}

TEST_CASE("shared memory: nothing is left of groups and memory that are gone") {
  const auto names = [] {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  };
  const std::vector<std::string> before = names();
  const ShmRun run = NewRun(2);
  RankProcesses ranks(2, [&](int rank) {
    const int outside = OpenDescriptors();
    {
      const auto world = Join(run, rank);
      const auto once = [&] {
        const auto part = world->Split({0, 1}).value();
        const SharedBytes memory = part->Allocate(1 << 20).value();
        return part->Run(Call::AllReduce({memory.data.get(), 1 << 18, DType::kF32, {}}));
      };
      // The regions of the world are left; the word that memory is free may be under way.
      const auto settled = [&] {
        const absl::Time deadline = absl::Now() + absl::Seconds(5);
        while (MappedPieces() > 2 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
        return MappedPieces() == 2;
      };
      if (!once().ok() || !settled()) return 2;
      const int descriptors = OpenDescriptors();
      if (!world->Run(Call::Barrier()).ok()) return 3;
      for (int i = 0; i < 200; ++i) {
        if (!once().ok()) return 3;
      }
      if (!settled()) return 4;
      if (OpenDescriptors() != descriptors) return 5;
      if (names() != before) return 6;
      if (!world->Run(Call::Barrier()).ok()) return 7;
    }
    return OpenDescriptors() == outside && MappedPieces() == 0 ? 0 : 8;
  });
  CHECK(ranks.Wait() == "0 0");
  CHECK(names() == before);
}

TEST_CASE("shared memory: memory may outlive the run, and is freed by its owner alone") {
  const ShmRun run = NewRun(2);
  RankProcesses ranks(2, [&](int rank) {
    auto world = Join(run, rank);
    SharedBytes memory = world->Allocate(8 << 20).value();
    std::memset(memory.data.get(), 1, 8 << 20);
    const Buffer all = {memory.data.get(), 8 << 20, DType::kU8, {}};
    if (!world->Run(Call::Broadcast(all, 0)).ok()) return 2;
    if (rank == 0) memory = {};
    if (!world->Run(Call::Barrier()).ok()) return 3;
    world = nullptr;
    return rank == 0 || memory.data.get()[77] == std::byte{1} ? 0 : 4;
  });
  CHECK(ranks.Wait() == "0 0");
}

TEST_CASE("shared memory: memory that is refused ends all ranks with an error that says so") {
  for (const bool by_owner : {true, false}) {
#ifdef __SANITIZE_ADDRESS__
    if (!by_owner) continue;  // its shadow does not fit either
#endif
    const ShmRun run = NewRun(3);
    RankProcesses ranks(3, [&](int rank) {
      const auto comm = Join(run, rank);
      comm->Run(Call::Barrier()).IgnoreError();  // all have joined
      if (rank == 1 && by_owner) {
        const rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
        setrlimit(RLIMIT_FSIZE, &limit);
        const absl::Status status = comm->Allocate(64 << 20).status();
        if (!Expect(status, ExitCode::kRankFailed, {"File too large"}).empty()) return 3;
      }
      if (rank == 1 && !by_owner) {
        const rlimit limit = {.rlim_cur = 512 << 20, .rlim_max = 512 << 20};
        setrlimit(RLIMIT_AS, &limit);
      }
      comm->Run(Call::Barrier()).IgnoreError();  // the limits hold
      SharedBytes memory;
      if (rank == 0 && !by_owner) memory = comm->Allocate(int64_t{1} << 30).value();
      const absl::Time deadline = absl::Now() + absl::Seconds(5);
      while (comm->status().ok() && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
      return ReportFailures(rank, Expect(comm->status(), ExitCode::kRankFailed,
                                         {"rank 1", "refused", "bytes of shared memory"}));
    });
    CHECK(ranks.Wait() == "0 0 0");
  }
}

}  // namespace
}  // namespace ftune
