#include "data/loader/prefetcher.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/error.h"

namespace ftune {
namespace {

const std::function<bool()> kNever = [] { return false; };

// Steps 1, 2, …, up to `count`; then the end, or an error. It may block, until it is interrupted.
class Counter : public BatchSource {
 public:
  explicit Counter(int64_t count) : count_(count) {}

  absl::StatusOr<std::optional<StepBatches>> Next() override {
    ++calls;
    if (step_ == count_) {
      if (blocks) {
        while (!interrupted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (fails) return DataError({.message = "bad row"});
      return std::nullopt;
    }
    StepBatches step;
    step.next.step = ++step_;
    return step;
  }
  absl::Status Seek(const DataPosition& position) override {
    step_ = position.step;
    return absl::OkStatus();
  }
  DataPosition position() const override { return {.step = step_}; }
  void Interrupt() override { interrupted = true; }

  std::atomic<int64_t> calls = 0;
  std::atomic<bool> interrupted = false;
  bool fails = false;
  bool blocks = false;

 private:
  int64_t count_;
  int64_t step_ = 0;
};

TEST_CASE("batches come in order, and then the end") {
  Counter source(100);
  Prefetcher prefetcher(source, 3);
  for (int64_t step = 1; step <= 100; ++step) {
    const auto next = prefetcher.Next(kNever);
    REQUIRE(next.ok());
    REQUIRE(next->has_value());
    CHECK((*next)->next.step == step);
  }
  for (int i = 0; i < 2; ++i) CHECK_FALSE(prefetcher.Next(kNever)->has_value());
}

TEST_CASE("never more than its depth ahead") {
  for (const int64_t depth : {1, 2, 5}) {
    Counter source(1000);
    Prefetcher prefetcher(source, depth);
    for (int64_t step = 1; step <= 200; ++step) {
      REQUIRE(prefetcher.Next(kNever)->has_value());
      CHECK(source.calls <= step + depth);
    }
    // And it does go ahead, whenever it gets round to it.
    while (source.calls < 200 + depth) std::this_thread::yield();
  }
}

TEST_CASE("an error comes behind the batches before it") {
  Counter source(2);
  source.fails = true;
  Prefetcher prefetcher(source);
  CHECK(prefetcher.Next(kNever)->has_value());
  CHECK(prefetcher.Next(kNever)->has_value());
  const auto error = prefetcher.Next(kNever);
  REQUIRE_FALSE(error.ok());
  CHECK(DetailOf(error.status())->message == "bad row");
  CHECK_FALSE(prefetcher.Next(kNever).ok());
}

TEST_CASE("a stop ends the waiting for a batch; the end interrupts a source that waits") {
  Counter source(1);
  source.blocks = true;
  {
    Prefetcher prefetcher(source);
    CHECK(prefetcher.Next(kNever)->has_value());
    int asked = 0;
    CHECK_FALSE(prefetcher.Next([&] { return ++asked == 3; })->has_value());
    CHECK_FALSE(source.interrupted);
  }
  CHECK(source.interrupted);
  Counter untouched(10);
  { const Prefetcher unused(untouched); }
}

}  // namespace
}  // namespace ftune
