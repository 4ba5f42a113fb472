#include "data/loader/streamed_batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "base/error.h"
#include "base/random.h"

namespace ftune {
namespace {

// Row r has none to three samples, of which each token is r + 1; the same on every pass.
StreamedRow RowOf(int64_t row) {
  RandomSequence random(9, static_cast<uint64_t>(row));
  StreamedRow samples(random.Below(8) == 0 ? random.Below(4) : 1);
  for (auto& sample : samples) {
    sample.resize(2 + random.Below(60), StoredToken::Make(static_cast<int32_t>(row + 1), true));
  }
  return samples;
}

struct Seen {
  int64_t opened = 0;
  int64_t read = 0;  // rows, on all passes
};

class Rows : public RowStream {
 public:
  Rows(int64_t count, StreamedRow (*row_of)(int64_t), Seen& seen)
      : count_(count), row_of_(row_of), seen_(seen) {}
  absl::StatusOr<std::optional<StreamedRow>> Next() override {
    if (row_ == count_) return std::nullopt;
    ++seen_.read;
    return row_of_(row_++);
  }
  absl::StatusOr<int64_t> Skip(int64_t rows) override {
    const int64_t skipped = std::min(rows, count_ - row_);
    row_ += skipped;
    return skipped;
  }

 private:
  int64_t count_;
  StreamedRow (*row_of_)(int64_t);
  Seen& seen_;
  int64_t row_ = 0;
};

RowInput Input(int64_t count, Seen& seen, bool rereadable = true, StreamedRow (*row_of)(int64_t) = RowOf) {
  return {.open = [=, &seen]() -> absl::StatusOr<std::unique_ptr<RowStream>> {
            ++seen.opened;
            return std::make_unique<Rows>(count, row_of, seen);
          },
          .rereadable = rereadable};
}

constexpr int64_t kEndless = int64_t{1} << 60;

std::vector<StepBatches> Take(BatchSource& source, int64_t steps) {
  std::vector<StepBatches> taken;
  while (static_cast<int64_t>(taken.size()) < steps) {
    auto next = source.Next();
    INFO(std::string(next.status().message()));
    REQUIRE(next.ok());
    if (!next->has_value()) break;
    taken.push_back(**std::move(next));
  }
  return taken;
}

// How many tokens of each row these batches have.
std::map<int32_t, int64_t> Tokens(const std::vector<StepBatches>& steps) {
  std::map<int32_t, int64_t> counts;
  for (const StepBatches& step : steps) {
    for (const Batch& batch : step.microbatches) {
      for (const int32_t id : batch.ids) ++counts[id];
    }
  }
  counts.erase(0);
  return counts;
}

std::map<int32_t, int64_t> Expected(int64_t rows) {
  std::map<int32_t, int64_t> counts;
  for (int64_t row = 0; row < rows; ++row) {
    for (const auto& sample : RowOf(row)) {
      counts[static_cast<int32_t>(row + 1)] += static_cast<int64_t>(sample.size());
    }
  }
  return counts;
}

std::vector<int32_t> Ids(const StepBatches& step) {
  std::vector<int32_t> ids;
  for (const Batch& batch : step.microbatches) ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
  return ids;
}

StreamOptions Options(bool packing, int64_t window = 100) {
  return {.seed = 3,
          .window = {.window = window, .capacity = 128, .packing = packing, .global_batch_size = 6},
          .slice = {.micro_batch_size = 2}};
}

TEST_CASE("each pass takes every sample once; the next begins where the input can be read again") {
  for (const bool packing : {true, false}) {
    Seen seen;
    StreamedBatches once(Input(1000, seen, /*rereadable=*/false), Options(packing));
    const std::vector<StepBatches> pass = Take(once, kEndless);
    CHECK(Tokens(pass) == Expected(1000));
    CHECK(seen.opened == 1);
    CHECK(pass.back().epoch == 1.0);

    StreamedBatches again(Input(1000, seen), Options(packing));
    std::vector<StepBatches> two = Take(again, static_cast<int64_t>(2 * pass.size() + 1));
    const auto second = std::find_if(two.begin(), two.end(), [](const auto& s) { return s.epoch > 0; }) + 1;
    const auto third = std::find_if(two.begin(), two.end(), [](const auto& s) { return s.epoch > 1; }) + 1;
    CHECK(static_cast<size_t>(second - two.begin()) == pass.size());
    CHECK(Tokens({two.begin(), second}) == Expected(1000));
    CHECK(Tokens({second, third}) == Expected(1000));
    CHECK(Ids(two[0]) == Ids(pass[0]));
    CHECK(Ids(two[0]) != Ids(*second));
  }
}

TEST_CASE("endless input: whole batches, well filled, and no more than a window is read ahead") {
  for (const bool packing : {true, false}) {
    Seen seen;
    StreamedBatches source(Input(kEndless, seen), Options(packing, 500));
    int64_t used = 0, capacity = 0;
    std::set<int32_t> rows;
    for (int i = 0; i < 200; ++i) {
      const std::vector<StepBatches> step = Take(source, 1);
      REQUIRE(step.size() == 1);
      int64_t full = 0, trained = 0;
      for (const Batch& batch : step[0].microbatches) {
        used += batch.used_tokens;
        capacity += batch.tokens();
        trained += batch.trained_tokens;
        for (const Segment& segment : batch.segments) full += batch.ids[segment.begin] != 0;
      }
      CHECK(step[0].trained_tokens == trained);
      CHECK(step[0].microbatches.size() == 3);
      CHECK(full >= 6);  // no pack of a batch is empty
      for (const auto& [id, count] : Tokens(step)) rows.insert(id);
      // Rows of one window have numbers that are near one another.
      CHECK(seen.read - static_cast<int64_t>(rows.size()) < 1000);
    }
    if (packing) CHECK(static_cast<double>(used) / static_cast<double>(capacity) > 0.97);
  }
}

TEST_CASE("restored at any batch it goes on as it would have") {
  for (const bool packing : {true, false}) {
    Seen seen;
    StreamedBatches whole(Input(700, seen), Options(packing));
    const std::vector<StepBatches> all = Take(whole, packing ? 60 : 180);  // into the second pass
    CHECK(all.back().epoch >= 1.0);
    for (size_t k = 0; k < all.size(); k += 1 + k / 10) {
      const DataPosition saved = k == 0 ? DataPosition() : all[k - 1].next;
      StreamedBatches restored(Input(700, seen), Options(packing));
      REQUIRE(restored.Seek(saved).ok());
      CHECK(restored.position() == saved);
      const std::vector<StepBatches> rest = Take(restored, 12);
      bool same = true;
      for (size_t i = 0; i < rest.size() && k + i < all.size(); ++i) {
        same = same && Ids(rest[i]) == Ids(all[k + i]) && rest[i].next == all[k + i].next &&
               rest[i].trained_tokens == all[k + i].trained_tokens;
      }
      CHECK(same);
    }
  }
}

TEST_CASE("the samples of a global batch do not depend on the number of ranks") {
  Seen seen;
  StreamedBatches one(Input(700, seen), Options(true));
  const std::vector<StepBatches> all = Take(one, 40);
  for (const int64_t ranks : {2, 3, 5, 8}) {
    std::vector<std::vector<StepBatches>> by_rank;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      StreamOptions options = Options(true);
      options.slice = {.micro_batch_size = 1, .rank = rank, .ranks = ranks};
      StreamedBatches source(Input(700, seen), options);
      by_rank.push_back(Take(source, 40));
    }
    for (size_t i = 0; i < all.size(); ++i) {
      std::map<int32_t, int64_t> tokens;
      for (const auto& rank : by_rank) {
        CHECK(rank[i].microbatches.size() == by_rank[0][i].microbatches.size());
        CHECK(rank[i].trained_tokens == all[i].trained_tokens);
        CHECK(rank[i].next == all[i].next);
        for (const auto& [id, count] : Tokens({rank[i]})) tokens[id] += count;
      }
      CHECK(tokens == Tokens({all[i]}));
    }
  }
}

TEST_CASE("inputs that make nothing, one row that makes much, and positions that cannot be") {
  Seen seen;
  StreamedBatches nothing(Input(30, seen, true, [](int64_t) { return StreamedRow(); }), Options(true));
  const auto error = nothing.Next();
  REQUIRE_FALSE(error.ok());
  CHECK(std::string(error.status().message()).find("all 30 were dropped") != std::string::npos);

  // A book in one row: hundreds of samples.
  StreamedBatches book(Input(2, seen, false,
                             [](int64_t) {
                               return StreamedRow(333, {100, StoredToken::Make(7, true)});
                             }),
                       Options(true));
  const std::vector<StepBatches> steps = Take(book, kEndless);
  CHECK(Tokens(steps) == std::map<int32_t, int64_t>{{7, 66600}});

  StreamedBatches once(Input(100, seen, false), Options(true));
  CHECK_FALSE(once.Seek({.step = 9, .epoch = 1}).ok());
  StreamedBatches source(Input(100, seen), Options(true));
  CHECK_FALSE(source.Seek({.step = 9, .row = 101}).ok());
  CHECK_FALSE(source.Seek({.step = 9, .row = 0, .batch = 999}).ok());
  CHECK(source.Seek({.step = 0}).ok());
}

}  // namespace
}  // namespace ftune
