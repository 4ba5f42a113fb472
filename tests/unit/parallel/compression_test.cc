#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "parallel/comm/compression/compressed_reducer.h"
#include "parallel/comm/compression/compressor.h"
#include "parallel/comm/thread_transport.h"
#include "tests/unit/parallel/thread_ranks.h"

namespace ftune {
namespace {

constexpr Compression kAll[] = {Compression::kBf16, Compression::kInt8, Compression::kTopK,
                                Compression::kOneBit};

// Between -1 and 1, of magnitudes over four orders.
float Value(uint64_t i) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 32;
  const double u = static_cast<double>(x % 2000001) / 1e6 - 1;
  return static_cast<float>(u * std::abs(u) * std::abs(u));
}

std::vector<float> Values(int64_t count, uint64_t salt) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = Value(salt * 1'000'003 + i);
  return values;
}

std::vector<float> There(const Compressor& compressor, const std::vector<float>& values) {
  // One byte off any alignment, and one behind that must stay.
  std::vector<std::byte> bytes(compressor.BytesFor(std::ssize(values)) + 2, std::byte{0x5a});
  compressor.Compress(values, bytes.data() + 1);
  CHECK(bytes.front() == std::byte{0x5a});
  CHECK(bytes.back() == std::byte{0x5a});
  std::vector<float> back(values.size(), 77.0f);
  compressor.Decompress(bytes.data() + 1, back);
  return back;
}

struct OwnResiduals : Residuals {
  OwnResiduals(int64_t count, int64_t owned_count) : sent_memory(count), owned_memory(owned_count) {
    sent = sent_memory;
    owned = owned_memory;
  }
  void Forget() {
    std::fill(sent.begin(), sent.end(), 0.0f);
    std::fill(owned.begin(), owned.end(), 0.0f);
  }
  std::vector<float> sent_memory, owned_memory;
};

TEST_CASE("compression: what a scheme may lose, and its bytes") {
  for (const int64_t count : {0, 1, 7, 255, 256, 257, 10'000}) {
    const std::vector<float> x = Values(count, 1);
    const int64_t blocks = (count + 255) / 256;

    const auto bf16 = MakeCompressor({.kind = Compression::kBf16});
    CHECK(bf16->BytesFor(count) == 2 * count);
    const std::vector<float> of_bf16 = There(*bf16, x);
    for (int64_t i = 0; i < count; ++i) CHECK(std::abs(of_bf16[i] - x[i]) <= std::abs(x[i]) / 256);

    const auto int8 = MakeCompressor({.kind = Compression::kInt8});
    CHECK(int8->BytesFor(count) == count + 4 * blocks);
    const std::vector<float> of_int8 = There(*int8, x);
    const auto one_bit = MakeCompressor({.kind = Compression::kOneBit});
    CHECK(one_bit->BytesFor(count) == (count + 7) / 8 + 4 * blocks);
    const std::vector<float> of_one_bit = There(*one_bit, x);
    for (int64_t begin = 0; begin < count; begin += 256) {
      const int64_t end = std::min(begin + 256, count);
      float greatest = 0;
      double sum = 0;
      for (int64_t i = begin; i < end; ++i) {
        greatest = std::max(greatest, std::abs(x[i]));
        sum += std::abs(x[i]);
      }
      const auto mean = static_cast<float>(sum / static_cast<double>(end - begin));
      for (int64_t i = begin; i < end; ++i) {
        CHECK(std::abs(of_int8[i] - x[i]) <= greatest / 254 * 1.00001f);
        CHECK(of_one_bit[i] == (x[i] < 0 ? -mean : mean));
      }
    }

    const auto top = MakeCompressor({.kind = Compression::kTopK});
    const int64_t kept = (count + 99) / 100;
    CHECK(top->BytesFor(count) == 8 * kept);
    const std::vector<float> of_top = There(*top, x);
    float least_kept = 2, most_lost = 0;
    int64_t there = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (of_top[i] != 0) {
        CHECK(of_top[i] == x[i]);
        ++there;
        least_kept = std::min(least_kept, std::abs(x[i]));
      } else {
        most_lost = std::max(most_lost, std::abs(x[i]));
      }
    }
    CHECK(there == kept);
    CHECK(least_kept >= most_lost);
  }
}

TEST_CASE("compression: of equal magnitudes top-k keeps the first") {
  const auto top = MakeCompressor({.kind = Compression::kTopK, .top_share = 0.5});
  CHECK(There(*top, {1, -1, 1, -1, 1, 1}) == std::vector<float>{1, -1, 1, 0, 0, 0});
}

TEST_CASE("compression: zeros stay zeros, and what is not finite is seen on the other side") {
  for (const Compression kind : kAll) {
    CAPTURE(Name(kind));
    const auto compressor = MakeCompressor({.kind = kind});
    CHECK(There(*compressor, std::vector<float>(300, 0.0f)) == std::vector<float>(300, 0.0f));
    for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> x = Values(300, 2);
      x[299] = bad;
      const std::vector<float> y = There(*compressor, x);
      CHECK(std::any_of(y.begin(), y.end(), [](float v) { return !std::isfinite(v); }));
    }
  }
}

TEST_CASE("compressed all-reduce: the same bits on all ranks, the bytes of the formula, nothing is lost") {
  constexpr int kRanks = 3, kSteps = 800;
  constexpr int64_t kCount = 1000;
  const std::vector<int64_t> counts = {410, 0, 590};
  for (const Compression kind : kAll) {
    CAPTURE(Name(kind));
    const auto compressor = MakeCompressor({.kind = kind});
    std::vector<std::vector<float>> last(kRanks);
    RunRanks(kRanks, [&](Communicator& comm) {
      const int me = comm.rank();
      CompressedReducer reducer(comm, *compressor);
      OwnResiduals residuals(kCount, counts[me]);
      std::vector<double> wanted(kCount, 0.0), summed(kCount, 0.0);
      for (int r = 0; r < kRanks; ++r) {
        const std::vector<float> values = Values(kCount, r);
        for (int64_t i = 0; i < kCount; ++i) wanted[i] += values[i];
      }
      const auto worst_mean = [&](int steps) {
        double worst = 0;
        for (int64_t i = 0; i < kCount; ++i) worst = std::max(worst, std::abs(summed[i] / steps - wanted[i]));
        return worst;
      };
      std::vector<float> x;
      double early = 0;
      for (int step = 0; step < kSteps; ++step) {
        x = Values(kCount, me);  // the same in every step
        CHECK(reducer.AllReduce(x, counts, residuals).ok());
        for (int64_t i = 0; i < kCount; ++i) summed[i] += x[i];
        if (step + 1 == kSteps / 8) early = worst_mean(kSteps / 8);
      }
      last[me] = x;
      int64_t bytes = (kRanks - 1) * compressor->BytesFor(counts[me]);
      for (int r = 0; r < kRanks; ++r) bytes += r == me ? 0 : compressor->BytesFor(counts[r]);
      CHECK(comm.traffic().bytes == kSteps * bytes);

      // The mean of the results comes to the true sum as 1 / steps, as soon as all has been sent once;
      // together with what is owed it is there.
      const double late = worst_mean(kSteps);
      CAPTURE(early);
      CHECK(late < early / 4);
      std::vector<float> owed(counts[me], 0.0f);
      CHECK(reducer.TakeOwed(owed, counts, residuals).ok());
      CHECK(residuals.sent_memory == std::vector<float>(kCount, 0.0f));
      double worst = 0;
      for (int64_t i = 0; i < counts[me]; ++i) {
        const int64_t at = Offsets(counts)[me] + i;
        worst = std::max(worst, std::abs(summed[at] + owed[i] - kSteps * wanted[at]));
      }
      CHECK(worst < 1e-5 * kSteps);
    });
    CHECK(last[0] == last[1]);
    CHECK(last[0] == last[2]);
  }
}

TEST_CASE("compressed reduce-scatter: the share that an all-reduce is made of, half the bytes") {
  const std::vector<int64_t> counts = {600, 400};
  const auto compressor = MakeCompressor({.kind = Compression::kInt8});
  RunRanks(2, [&](Communicator& comm) {
    const int me = comm.rank();
    CompressedReducer reducer(comm, *compressor);
    OwnResiduals residuals(1000, counts[me]);
    const std::vector<float> x = Values(1000, me);
    std::vector<float> share(counts[me]);
    CHECK(reducer.ReduceScatter(x, counts, share, residuals).ok());
    CHECK(comm.traffic().bytes == compressor->BytesFor(counts[1 - me]));
    const int64_t begin = Offsets(counts)[me];
    for (int64_t i = 0; i < counts[me]; ++i) {
      const float sum = Value(begin + i) + Value(1'000'003 + begin + i);
      CHECK(std::abs(share[i] - sum) <= 1.001f / 254);
    }
    CHECK(residuals.owned_memory == std::vector<float>(counts[me], 0.0f));
  });
}

TEST_CASE("compressed all-reduce: a step that overflowed is not owed for ever") {
  for (const Compression kind : kAll) {
    const auto compressor = MakeCompressor({.kind = kind});
    RunRanks(2, [&](Communicator& comm) {
      CompressedReducer reducer(comm, *compressor);
      const std::vector<int64_t> counts = {256, 256};
      OwnResiduals residuals(512, 256);
      std::vector<float> x(512, std::numeric_limits<float>::infinity());
      CHECK(reducer.AllReduce(x, counts, residuals).ok());
      CHECK(!std::isfinite(std::accumulate(x.begin(), x.end(), 0.0f)));
      x = Values(512, comm.rank());
      CHECK(reducer.AllReduce(x, counts, residuals).ok());
      CHECK(std::isfinite(std::accumulate(x.begin(), x.end(), 0.0f)));
    });
  }
}

// Least squares: each of four ranks has rows of its own that alone would lead elsewhere. The loss after
// gradient descent, above the least that there is, as a share of that at the start.
struct Descent {
  static constexpr int kRanks = 4, kRows = 64, kColumns = 128, kSteps = 4000;
  static constexpr double kRate = 1e-4;
  static float Row(int rank, int row, int column) {
    return Value(((static_cast<uint64_t>(rank) * kRows + row) * kColumns + column) + 50'000'000) / 0.378f;
  }
  static float Wanted(int rank, int row) {
    return 3.0f * Value(static_cast<uint64_t>(rank) * kRows + row + 90'000'000);
  }

  static double Loss(const std::vector<double>& w) {
    double loss = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int row = 0; row < kRows; ++row) {
        double error = -Wanted(rank, row);
        for (int c = 0; c < kColumns; ++c) error += Row(rank, row, c) * w[c];
        loss += error * error;
      }
    }
    return loss / (kRanks * kRows);
  }

  // `keeps`: whether residuals are kept from step to step.
  static double Run(Compression kind, bool keeps) {
    const auto compressor =
        kind == Compression::kNone ? nullptr : MakeCompressor({.kind = kind, .top_share = 0.05, .block = 32});
    std::vector<double> result;
    RunRanks(kRanks, [&](Communicator& comm) {
      const int me = comm.rank();
      const std::vector<int64_t> counts = EvenCounts(kColumns, kRanks);
      OwnResiduals residuals(kColumns, counts[me]);
      std::vector<float> rows(kRows * kColumns);
      for (int i = 0; i < kRows * kColumns; ++i) rows[i] = Row(me, i / kColumns, i % kColumns);
      std::vector<double> w(kColumns, 0.0);
      for (int step = 0; step < kSteps; ++step) {
        std::vector<float> gradient(kColumns, 0.0f);
        for (int row = 0; row < kRows; ++row) {
          double error = -Wanted(me, row);
          for (int c = 0; c < kColumns; ++c) error += rows[row * kColumns + c] * w[c];
          for (int c = 0; c < kColumns; ++c)
            gradient[c] += static_cast<float>(error) * rows[row * kColumns + c];
        }
        if (!keeps) residuals.Forget();
        if (compressor) {
          CHECK(CompressedReducer(comm, *compressor).AllReduce(gradient, counts, residuals).ok());
        } else {
          CHECK(comm.Run(Call::AllReduce(
                             {reinterpret_cast<std::byte*>(gradient.data()), kColumns, DType::kF32, {}}))
                    .ok());
        }
        for (int c = 0; c < kColumns; ++c) w[c] -= kRate * gradient[c];
      }
      if (me == 0) result = w;
    });
    return Loss(result);
  }
};

TEST_CASE("compression: gradient descent reaches the uncompressed loss, and without residuals it does not") {
  const double plain = Descent::Run(Compression::kNone, true);
  CHECK(plain < 0.5 * Descent::Loss(std::vector<double>(Descent::kColumns, 0.0)));
  for (const Compression kind : kAll) {
    CAPTURE(Name(kind));
    CHECK(Descent::Run(kind, true) < 1.005 * plain);
  }
  for (const Compression kind : {Compression::kTopK, Compression::kOneBit}) {
    CAPTURE(Name(kind));
    CHECK(Descent::Run(kind, false) > 1.2 * plain);
  }
}

}  // namespace
}  // namespace ftune
