// What ranks show: on the page, in few words, and what is made of it.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/timeline.h"
#include "parallel/comm/communicator.h"
#include "parallel/launch/hang_watch.h"
#include "parallel/launch/odd_rank.h"
#include "parallel/launch/oom_kills.h"
#include "parallel/launch/pulse_page.h"
#include "parallel/launch/pulse_writer.h"
#include "parallel/launch/straggler_watch.h"

namespace ftune {
namespace {

PulsePage NewPage() {
  absl::StatusOr<PulsePage> page = PulsePage::Create();
  REQUIRE(page.ok());
  return *std::move(page);
}

PulsePage Mapped(const PulsePage& page) {
  absl::StatusOr<PulsePage> mapped = PulsePage::Map(page.descriptor());
  REQUIRE(mapped.ok());
  return *std::move(mapped);
}

// One in which everything follows from one number.
PulseRecord RecordOf(int64_t number) {
  PulseRecord record = {.step = number,
                        .total_steps = -number,
                        .micro_batch = 3 * number,
                        .calls = static_cast<uint64_t>(number),
                        .step_seconds = static_cast<double>(number),
                        .data_wait_seconds = static_cast<double>(number)};
  record.network_bytes.fill(number);
  const std::string phase = "phase " + std::to_string(number);
  std::copy(phase.begin(), phase.end(), record.phase.begin());
  return record;
}

bool IsWhole(const Pulse& pulse) {
  const int64_t number = pulse.step;
  bool whole = pulse.total_steps == -number && pulse.micro_batch == 3 * number &&
               pulse.calls == static_cast<uint64_t>(number) &&
               pulse.step_seconds == static_cast<double>(number) &&
               pulse.data_wait_seconds == static_cast<double>(number) &&
               pulse.phase == "phase " + std::to_string(number);
  for (const int64_t bytes : pulse.network_bytes) whole = whole && bytes == number;
  return whole;
}

TEST_CASE("a page shows what was written last, and never half of it") {
  PulsePage page = NewPage();
  const PulsePage seen = Mapped(page);
  CHECK(seen.Look().step == 0);
  CHECK(seen.Look().phase.empty());
  CHECK(seen.Look().resident_bytes > 0);
  CHECK(PulsePage().Look() == Pulse());
  std::atomic<bool> ends = false;
  std::atomic<int64_t> written = 0;
  std::thread writer([&] {
    for (int64_t number = 1; !ends; ++number) {
      page.Write(RecordOf(number));
      written = number;
    }
  });
  int64_t last = 0;
  bool whole = true, newest = true;
  while (written == 0) std::this_thread::yield();
  for (int look = 0; look < 20000; ++look) {
    const int64_t before = written;
    const Pulse pulse = seen.Look(/*writer=*/0);
    whole = whole && IsWhole(pulse);
    newest = newest && pulse.step >= before && pulse.step >= last;
    last = pulse.step;
  }
  ends = true;
  writer.join();
  CHECK(whole);
  CHECK(newest);
}

TEST_CASE("what is no page is not taken for one") {
  CHECK_FALSE(PulsePage::Map(-1).ok());
  const Descriptor other(open("/dev/null", O_RDONLY));
  CHECK_FALSE(PulsePage::Map(other.get()).ok());
}

constexpr GroupRanks kBoth = {.first = 0, .distance = 1, .count = 2};

CommSpan SpanOf(const Communicator& group, CallKind kind, uint64_t sequence, bool exposed) {
  return {.group = &group,
          .ranks = kBoth,
          .call = {.sequence = sequence, .kind = kind},
          .bytes_to_send = 10,
          .exposed = exposed};
}

TEST_CASE("marks and calls become a pulse") {
  Timeline timeline;
  const std::unique_ptr<Communicator> group = MakeSingleCommunicator();  // by which spans are told apart
  PulseWriter writer(NewPage());
  timeline.set_listener(&writer);
  writer.set_total_steps(7);
  const TimeScope run(&timeline, kStepLane, "start");
  CHECK(DescribePlace(writer.Look()) == "before the first step (start)");
  {
    const TimeScope step(&timeline, kStepLane, kStepMark, 5);
    {
      const TimeScope forward(&timeline, kStepLane, "forward", 2);
      const TimeScope block(&timeline, kComputeLane, "forward of block", 3);
      const Pulse pulse = writer.Look();
      CHECK(pulse.step == 5);
      CHECK(pulse.total_steps == 7);
      CHECK(pulse.phase == "forward");
      CHECK(pulse.micro_batch == 2);
      CHECK(pulse.step_seconds == 0.0);
      CHECK(DescribePlace(pulse) == "in step 5, forward of microbatch 2");
    }
    CHECK(DescribePlace(writer.Look()) == "in step 5");
    // A call that runs beside is no wait, unless this thread waits for it.
    const CommSpan beside = SpanOf(*group, CallKind::kReduceScatter, 4, /*exposed=*/false);
    static_cast<CallObserver&>(writer).OnBegin(beside);
    CHECK(writer.Look().call.empty());
    CommSpan wait = {.group = group.get(), .ranks = kBoth, .is_wait = true, .exposed = true};
    static_cast<CallObserver&>(writer).OnBegin(wait);
    CHECK(writer.Look().call == "reduce_scatter(sum, f32) #4 of ranks 0, 1");
    CHECK(writer.Look().sequence == 4);
    static_cast<CallObserver&>(writer).OnEnd(beside);
    wait.end = wait.begin + 0.25;
    static_cast<CallObserver&>(writer).OnEnd(wait);
    CHECK(writer.Look().call.empty());
    CHECK(writer.Look().calls == 1);
    CHECK(writer.Look().network_bytes[static_cast<size_t>(CallKind::kReduceScatter)] == 10);
    // In a group of one there is nobody to wait for.
    static_cast<CallObserver&>(writer).OnBegin({.ranks = {.count = 1}, .exposed = true});
    CHECK(writer.Look().calls == 1);
  }
  const Pulse made = writer.Look();
  CHECK(made.phase == "start");
  CHECK(made.step_seconds > 0.0);
  CHECK(made.wait_seconds == 0.25);
  CHECK(made.still_seconds >= 0.0);
  // Where a call fails the rank stays, whatever it does to end.
  CommSpan failed = SpanOf(*group, CallKind::kBarrier, 9, /*exposed=*/true);
  static_cast<CallObserver&>(writer).OnBegin(failed);
  failed.failed = true;
  static_cast<CallObserver&>(writer).OnEnd(failed);
  const TimeScope end(&timeline, kStepLane, "save");
  CHECK(DescribePlace(writer.Look()) == "in step 5, start, barrier() #9 of ranks 0, 1");
}

TEST_CASE("the ranks of a group in few words") {
  const auto text = [](const std::vector<int>& ranks) { return GroupRanks::Of(ranks).Describe(); };
  CHECK(text({3}) == "rank 3");
  CHECK(text({0, 1}) == "ranks 0, 1");
  CHECK(text({0, 1, 2}) == "ranks 0-2");
  CHECK(text({1, 3, 5, 7}) == "ranks 1, 3, 5, 7");
  CHECK(text({0, 8, 16, 24, 32}) == "ranks 0, 8, …, 32");
  CHECK(text({0, 1, 4}) == "rank 0 and 2 others");
  CHECK(GroupRanks::Of({1, 3, 5}).Has(5));
  CHECK_FALSE(GroupRanks::Of({1, 3, 5}).Has(4));
  CHECK_FALSE(GroupRanks::Of({1, 3, 5}).Has(7));
  CHECK_FALSE(GroupRanks::Of({1, 3, 5}).Has(0));
}

Pulse Waits(uint64_t sequence, const GroupRanks& group, double still = 1.0) {
  return {.call = "a call", .still_seconds = still, .group = group, .sequence = sequence};
}

Pulse Computes(double still = 1.0) { return {.still_seconds = still}; }

TEST_CASE("the odd one of ranks that stand still") {
  constexpr GroupRanks kAll = {.first = 0, .distance = 1, .count = 4};
  constexpr GroupRanks kEven = {.first = 0, .distance = 2, .count = 2},
                       kOdd = {.first = 1, .distance = 2, .count = 2};
  constexpr GroupRanks kLow = {.first = 0, .distance = 1, .count = 2};
  const Pulse at7 = Waits(7, kAll);
  CHECK(OddRank({at7, at7, Computes(), at7}) == 2);
  CHECK(OddRank({at7, at7, at7, Waits(6, kAll)}) == 3);
  // Rank 0 waits for 2, which waits in vain itself: for 3, by another group.
  CHECK(OddRank({Waits(4, kEven), Waits(9, kOdd), Waits(2, {.first = 2, .distance = 1, .count = 2}),
                 Computes()}) == 3);
  // Of two that compute the one that has shown nothing for longer.
  CHECK(OddRank({at7, Computes(5.0), Computes(8.0), at7}) == 2);
  // All in one call, or each in a call that another should be in: nobody can tell.
  CHECK(OddRank({at7, at7, at7, at7}) == std::nullopt);
  CHECK(OddRank({Waits(1, kLow), Waits(1, {.first = 1, .distance = 1, .count = 2}),
                 Waits(1, {.first = 0, .distance = 2, .count = 2})}) == std::nullopt);
  // None waits for another one.
  CHECK(OddRank({Computes(2.0), Computes(3.0)}) == 1);
  CHECK(OddRank({}) == std::nullopt);
}

Pulse InStep(int64_t step, double still, double compute = 0.1) {
  return {.step = step,
          .phase = "forward",
          .still_seconds = still,
          .step_seconds = 1.0,
          .compute_seconds = compute};
}

TEST_CASE("ranks hang where none shows anything new") {
  const absl::Duration second = absl::Seconds(1);
  HangWatch watch(
      2, {.in_steps = absl::Seconds(3) - kOldestPulse, .elsewhere = absl::Seconds(10) - kOldestPulse});
  const auto look = [&](const Pulse& a, const Pulse& b) {
    watch.OnPulse(0, a);
    watch.OnPulse(1, b);
    return watch.Hangs(second);
  };
  // Until a first step is made there is more time.
  for (int i = 0; i < 9; ++i) CHECK_FALSE(look({.still_seconds = 1.0 * i}, {.still_seconds = 1.0 * i}));
  CHECK(look({.still_seconds = 9}, {.still_seconds = 9}));
  CHECK_FALSE(look({.still_seconds = 10}, {.still_seconds = 10, .resident_bytes = 1}));  // a model is read
  CHECK_FALSE(look(InStep(1, 0.1), InStep(1, 0.2)));
  CHECK_FALSE(look(InStep(1, 1.1), InStep(1, 1.2)));
  CHECK_FALSE(look(InStep(1, 2.1), InStep(1, 0.2)));  // one that goes on is enough
  CHECK_FALSE(look(InStep(1, 3.1), InStep(1, 1.2)));
  CHECK(look(InStep(1, 4.1), InStep(1, 2.2)));
  CHECK(watch.still() == absl::Seconds(3));
  // What is stopped from outside may stand still.
  watch.OnStopped(1);
  for (int i = 0; i < 20; ++i) CHECK_FALSE(look(InStep(1, 5.0 + i), InStep(1, 5.0 + i)));
  watch.OnContinued(1);
  CHECK_FALSE(look(InStep(1, 30), InStep(1, 30)));
  // Saving takes its time.
  Pulse saves = InStep(1, 0.1);
  saves.phase = kSavePhase;
  for (int i = 0; i < 5; ++i) CHECK_FALSE(look(saves, InStep(1, 40)));
}

// Has two ranks make steps that take them so long; what is found of the second.
std::vector<Straggler> Found(StragglerWatch& watch, int64_t& step, int steps, double other, double slow) {
  std::vector<Straggler> found;
  for (int i = 0; i < steps; ++i) {
    ++step;
    CHECK_FALSE(watch.OnPulse(0, InStep(step, 0.0, other)).has_value());
    if (const std::optional<Straggler> straggler = watch.OnPulse(1, InStep(step, 0.0, slow))) {
      found.push_back(*straggler);
    }
    // Nothing new is seen of a step that is looked at twice.
    CHECK_FALSE(watch.OnPulse(1, InStep(step, 0.0, slow)).has_value());
  }
  return found;
}

TEST_CASE("a rank that takes longer for the same work is found once") {
  StragglerWatch watch({0, 0, 1});
  int64_t step = 0;
  CHECK(Found(watch, step, 9, 0.1, 0.2).empty());
  const std::vector<Straggler> found = Found(watch, step, 30, 0.1, 0.2);
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 1);
  CHECK(found[0].step == 10);
  CHECK(found[0].factor == doctest::Approx(2.0));
  CHECK(found[0].median_seconds == 0.1);
  CHECK(watch.IsSlow(1));
  // Neither one slow step nor one that is a little slower makes a difference.
  CHECK(Found(watch, step, 30, 0.1, 0.1).empty());
  CHECK_FALSE(watch.IsSlow(1));
  CHECK(Found(watch, step, 5, 0.1, 9.0).empty());
  CHECK(Found(watch, step, 30, 0.1, 0.14).empty());
  CHECK(Found(watch, step, 30, 0.1, 0.2).size() == 1);
  // A rank that does other work may take as long as it does; nor does noise count.
  for (int i = 0; i < 30; ++i) CHECK_FALSE(watch.OnPulse(2, InStep(i, 0.0, 5.0)).has_value());
  StragglerWatch fast({0, 0});
  CHECK(Found(fast, step, 30, 0.001, 0.004).empty());
}

TEST_CASE("what the kernel says of processes that it has killed") {
  CHECK(OomVictimOf("4,1,2,-;Out of memory: Killed process 4711 (exe) total-vm:1kB") == 4711);
  CHECK(OomVictimOf("3,1,2,-;Memory cgroup out of memory: Killed process 12 (exe)") == 12);
  CHECK(OomVictimOf("3,1,2,-;oom-kill:constraint=CONSTRAINT_MEMCG,pid=12") == 0);
  CHECK(OomCounterOf("0::/a/b") == "/sys/fs/cgroup/a/b/memory.events");
  CHECK(OomCounterOf("4:cpu,memory:/x:y") == "/sys/fs/cgroup/memory/x:y/memory.oom_control");
  CHECK(OomCounterOf("3:cpuset:/x").empty());
  CHECK(OomCounterOf("nonsense").empty());
}

}  // namespace
}  // namespace ftune
