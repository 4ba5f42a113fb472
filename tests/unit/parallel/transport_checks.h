// What every transport must do, run by each of its ranks, as a thread or a process: all collectives on all
// types and sizes, against a computation from what every rank is known to hold.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "base/convert.h"
#include "base/strings.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/reduce.h"

namespace ftune {

// The ranks of a group, host by host, as a hierarchy adds them: {4} for rank by rank.
using Hosts = std::vector<int>;

// Values that make the order of additions and their roundings visible.
inline std::vector<std::byte> ValuesOf(int rank, DType dtype, int64_t count, uint64_t salt = 0) {
  std::vector<std::byte> bytes(static_cast<size_t>(BytesFor(dtype, count)));
  const auto fill = [&](auto* values, const auto& value_of) {
    for (int64_t i = 0; i < count; ++i) {
      uint64_t x =
          (static_cast<uint64_t>(i) * 8 + static_cast<uint64_t>(rank) + salt * 977) * 0x9e3779b97f4a7c15u;
      x ^= x >> 29;
      x *= 0xbf58476d1ce4e5b9u;
      x ^= x >> 32;
      values[i] = value_of(x);
    }
  };
  const auto integer = [](uint64_t x) { return static_cast<int64_t>(x % 2000001) - 1000000; };
  const auto real = [&](uint64_t x) {
    return static_cast<float>(integer(x)) / static_cast<float>(int64_t{64} << (x >> 50 & 15));
  };
  switch (dtype) {
    case DType::kU8:
      fill(reinterpret_cast<uint8_t*>(bytes.data()), [](uint64_t x) { return static_cast<uint8_t>(x); });
      break;
    case DType::kI64:
      fill(reinterpret_cast<int64_t*>(bytes.data()), integer);
      break;
    case DType::kF64:
      fill(reinterpret_cast<double*>(bytes.data()),
           [&](uint64_t x) { return double{real(x)} * 1.000000123; });
      break;
    default: {
      std::vector<float> values(static_cast<size_t>(count));
      fill(values.data(), [&](uint64_t x) { return dtype == DType::kF16 ? real(x) / 1024.0f : real(x); });
      ConvertFromF32(dtype, values.data(), count, bytes.data());
    }
  }
  return bytes;
}

// The reduction of what all ranks hold: in f32 at least, inside each host first, rounded once.
inline std::vector<std::byte> Reduced(const Hosts& hosts, DType dtype, ReduceOp op, int64_t count) {
  const bool low = dtype == DType::kBF16 || dtype == DType::kF16;
  const DType work = low ? DType::kF32 : dtype;
  const auto reduce = [&](ReduceOp by, const std::vector<std::vector<std::byte>>& parts) {
    std::vector<const std::byte*> sources;
    for (const auto& part : parts) sources.push_back(part.data());
    std::vector<std::byte> out(parts[0].size());
    if (count > 0) Reduce(work, by, sources, count, out.data());
    return out;
  };
  int rank = 0;
  std::vector<std::vector<std::byte>> sums;
  for (const int ranks : hosts) {
    std::vector<std::vector<std::byte>> parts;
    for (int i = 0; i < ranks; ++i, ++rank) {
      std::vector<std::byte> values = ValuesOf(rank, dtype, count);
      if (low) {
        std::vector<std::byte> wide(static_cast<size_t>(BytesFor(work, count)));
        ConvertToF32(dtype, values.data(), count, reinterpret_cast<float*>(wide.data()));
        values = std::move(wide);
      }
      parts.push_back(std::move(values));
    }
    sums.push_back(reduce(op == ReduceOp::kAverage ? ReduceOp::kSum : op, parts));
  }
  std::vector<std::byte> sum = reduce(op == ReduceOp::kAverage ? ReduceOp::kSum : op, sums);
  if (op == ReduceOp::kAverage) {
    for (int64_t i = 0; i < count; ++i) {
      const auto divide = [&](auto value) {
        std::byte* at = sum.data() + i * static_cast<int64_t>(sizeof(value));
        std::memcpy(&value, at, sizeof(value));
        value /= static_cast<decltype(value)>(rank);
        std::memcpy(at, &value, sizeof(value));
      };
      if (work == DType::kF32) divide(float{});
      if (work == DType::kF64) divide(double{});
      if (work == DType::kI64) divide(int64_t{});
    }
  }
  if (!low) return sum;
  std::vector<std::byte> narrow(static_cast<size_t>(BytesFor(dtype, count)));
  ConvertFromF32(dtype, reinterpret_cast<const float*>(sum.data()), count, narrow.data());
  return narrow;
}

// Runs all of it on one rank; what went wrong, or nothing.
class TransportChecks {
 public:
  TransportChecks(Communicator& comm, Hosts hosts) : comm_(comm), hosts_(std::move(hosts)) {}

  std::string Run() {
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{1000}, int64_t{20011}}) {
      for (const DType dtype : {DType::kF32, DType::kF64, DType::kI64, DType::kBF16, DType::kF16})
        Reductions(dtype, count);
      for (const DType dtype : {DType::kBF16, DType::kF32, DType::kU8}) Moves(dtype, count);
    }
    Reductions(DType::kF32, kPieces);
    Reductions(DType::kBF16, kPieces);
    Moves(DType::kF32, kPieces);
    Expect("barrier", comm_.Run(Call::Barrier()));
    return failures_;
  }

 private:
  // Elements that no transport moves in one piece.
  static constexpr int64_t kPieces = 1'300'017;

  static Buffer View(std::vector<std::byte>& bytes, DType dtype) {
    return {bytes.data(), static_cast<int64_t>(bytes.size()) / BytesFor(dtype, 1), dtype, {}};
  }
  std::vector<std::byte> Mine(DType dtype, int64_t count, uint64_t salt = 0) const {
    return ValuesOf(comm_.rank(), dtype, count, salt);
  }
  std::vector<std::byte> Slice(const std::vector<std::byte>& bytes, DType dtype, int64_t begin,
                               int64_t count) const {
    const std::byte* at = bytes.data() + BytesFor(dtype, begin);
    return {at, at + BytesFor(dtype, count)};
  }
  // Uneven, one of them nothing where there are more than two.
  std::vector<int64_t> Uneven(int64_t total) const {
    std::vector<int64_t> counts = EvenCounts(total, comm_.size());
    const int64_t moved = counts[0] - counts[0] / 3;
    counts[0] -= moved;
    counts.back() += moved;
    if (comm_.size() > 2) {
      counts[2] += counts[1];
      counts[1] = 0;
    }
    return counts;
  }

  void Expect(const std::string& what, const absl::Status& status) {
    if (!status.ok()) StrAppend(failures_, what, ": ", std::string(status.message()), "\n");
  }
  void Expect(const std::string& what, const std::vector<std::byte>& got,
              const std::vector<std::byte>& wanted) {
    if (got != wanted)
      StrAppend(failures_, what, " on rank ", comm_.rank(), " of ", comm_.size(), ": other bits\n");
  }

  void Reductions(DType dtype, int64_t count) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kAverage}) {
      if (count == kPieces && op != ReduceOp::kSum) continue;
      const std::string what = StrCat("(", Name(op), ", ", Name(dtype), ", ", count, ")");
      const std::vector<std::byte> wanted = Reduced(hosts_, dtype, op, count);
      std::vector<std::byte> x = Mine(dtype, count);
      Expect("all_reduce" + what, comm_.Run(Call::AllReduce(View(x, dtype), op)));
      Expect("all_reduce" + what, x, wanted);
      for (const std::vector<int64_t>& counts : {EvenCounts(count, comm_.size()), Uneven(count)}) {
        const int64_t begin = Offsets(counts)[comm_.rank()], own = counts[comm_.rank()];
        const std::vector<std::byte> share = Slice(wanted, dtype, begin, own);
        std::vector<std::byte> in = Mine(dtype, count), out(share.size());
        Expect("reduce_scatter" + what,
               comm_.Run(Call::ReduceScatter(View(in, dtype), View(out, dtype), counts, op)));
        Expect("reduce_scatter" + what, out, share);
        in = Mine(dtype, count);
        Buffer place = View(in, dtype);
        place.data += BytesFor(dtype, begin);
        place.count = own;
        Expect("reduce_scatter in place", comm_.Run(Call::ReduceScatter(View(in, dtype), place, counts, op)));
        Expect("reduce_scatter in place" + what, Slice(in, dtype, begin, own), share);
      }
    }
  }

  void Moves(DType dtype, int64_t count) {
    const std::string what = StrCat("(", Name(dtype), ", ", count, ")");
    const int n = comm_.size(), me = comm_.rank();
    for (const std::vector<int64_t>& counts : {EvenCounts(count, n), Uneven(count)}) {
      std::vector<std::byte> wanted;
      for (int r = 0; r < n; ++r) {
        const std::vector<std::byte> part = ValuesOf(r, dtype, counts[r]);
        wanted.insert(wanted.end(), part.begin(), part.end());
      }
      std::vector<std::byte> in = Mine(dtype, counts[me]), out(wanted.size());
      Expect("all_gather" + what, comm_.Run(Call::AllGather(View(in, dtype), View(out, dtype), counts)));
      Expect("all_gather" + what, out, wanted);
      std::vector<std::byte> whole(wanted.size());
      Buffer place = View(whole, dtype);
      place.data += BytesFor(dtype, Offsets(counts)[me]);
      place.count = counts[me];
      std::copy(in.begin(), in.end(), place.data);
      Expect("all_gather in place" + what, comm_.Run(Call::AllGather(place, View(whole, dtype), counts)));
      Expect("all_gather in place" + what, whole, wanted);
    }
    for (int root = 0; root < n; ++root) {
      std::vector<std::byte> x = Mine(dtype, count);
      Expect("broadcast" + what, comm_.Run(Call::Broadcast(View(x, dtype), root)));
      Expect("broadcast" + what, x, ValuesOf(root, dtype, count));
    }
    // Rank a has (a + 2 b) % 3 shares for rank b.
    const auto shares = [&](int from, int to) { return (from + 2 * to) % 3 * (count / (2 * n)); };
    std::vector<int64_t> in_counts, out_counts;
    std::vector<std::byte> in, wanted;
    for (int r = 0; r < n; ++r) {
      in_counts.push_back(shares(me, r));
      out_counts.push_back(shares(r, me));
      const std::vector<std::byte> to = ValuesOf(me, dtype, in_counts.back(), 100 + r);
      in.insert(in.end(), to.begin(), to.end());
      const std::vector<std::byte> from = ValuesOf(r, dtype, out_counts.back(), 100 + me);
      wanted.insert(wanted.end(), from.begin(), from.end());
    }
    std::vector<std::byte> out(wanted.size());
    Expect("all_to_all" + what,
           comm_.Run(Call::AllToAll(View(in, dtype), in_counts, View(out, dtype), out_counts)));
    Expect("all_to_all" + what, out, wanted);
    // Round the ring, and to the next but one.
    for (int step = 1; step < std::min(n, 3); ++step) {
      std::vector<std::byte> x = Mine(dtype, count), y(x.size());
      const int next = (me + step) % n, before = (me + n - step) % n;
      const auto send = [&] { Expect("send" + what, comm_.Run(Call::Send(View(x, dtype), next))); };
      // Someone must not send first.
      if (me >= step) send();
      Expect("receive" + what, comm_.Run(Call::Receive(View(y, dtype), before)));
      if (me < step) send();
      Expect("receive" + what, y, ValuesOf(before, dtype, count));
    }
  }

  Communicator& comm_;
  Hosts hosts_;
  std::string failures_;
};

}  // namespace ftune
