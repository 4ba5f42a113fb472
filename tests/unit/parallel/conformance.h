// What every transport must do alike: each collective, type and size, compared bit for bit with ranks as
// threads. A rank's failures come as text, since a rank may be a process of its own.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/convert.h"
#include "base/random.h"
#include "base/strings.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/reduce.h"
#include "parallel/comm/thread_transport.h"

namespace ftune {

struct ConformanceOptions {
  // Buffers from the heap, from Communicator::Allocate, or some of each, differently on each rank.
  enum class Memory { kHeap, kAllocated, kMixed };
  Memory memory = Memory::kHeap;
  // Of the largest buffers; beside them, 0, 1, few and odd numbers of elements are tried.
  int64_t large_bytes = 1'400'000;
};

struct ConformanceCase {
  CallKind kind = CallKind::kBarrier;
  DType dtype = DType::kF32;
  ReduceOp op = ReduceOp::kSum;
  int64_t count = 0;      // elements, of all ranks together where each has a share
  int root = 0;           // or the rank that sends
  bool in_place = false;  // the share at its place in the whole
  bool even = true;       // shares

  std::string Describe() const {
    return StrCat(Name(kind), "(", Name(op), ", ", Name(dtype), ", ", count, " elements, root ", root,
                  in_place ? ", in place" : "", even ? "" : ", uneven", ")");
  }
};

// A rank's buffers. Their alignment differs between ranks.
class ConformanceBuffers {
 public:
  ConformanceBuffers(Communicator& comm, ConformanceOptions::Memory memory) : comm_(comm), memory_(memory) {}

  Buffer Make(DType dtype, int64_t count) {
    using enum ConformanceOptions::Memory;
    const size_t number = made_++;
    const bool allocated =
        memory_ == kAllocated || (memory_ == kMixed && (number + static_cast<size_t>(comm_.rank())) % 2 == 0);
    const int64_t offset = 64 * comm_.rank() + 8 * static_cast<int64_t>(number);
    const int64_t bytes = BytesFor(dtype, count) + offset;
    if (!allocated) {
      heap_.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(bytes)));
      return {heap_.back().get() + offset, count, dtype, {}};
    }
    if (allocated_.size() <= number) allocated_.resize(number + 1);
    if (allocated_[number].bytes < bytes) allocated_[number] = comm_.Allocate(bytes).value();
    return {allocated_[number].data.get() + offset, count, dtype, {}};
  }
  // The buffers made so far are of no use any more.
  void Clear() {
    heap_.clear();
    made_ = 0;
  }

 private:
  Communicator& comm_;
  ConformanceOptions::Memory memory_;
  size_t made_ = 0;
  std::vector<SharedBytes> allocated_;
  std::vector<std::unique_ptr<std::byte[]>> heap_;
};

// Values of which sums depend on the order: some thousand, over and over.
inline void FillBuffer(const Buffer& buffer, uint64_t seed) {
  constexpr int64_t kPeriod = 4099;
  RandomSequence random(seed, 1);
  const auto each = [&](auto* values, auto draw) {
    for (int64_t i = 0; i < buffer.count; ++i) values[i] = i < kPeriod ? draw() : values[i - kPeriod];
  };
  const auto real = [&] { return (random.Uniform() - 0.5f) * static_cast<float>(1 << random.Below(8)); };
  switch (buffer.dtype) {
    case DType::kF32:
      return each(reinterpret_cast<float*>(buffer.data), real);
    case DType::kF64:
      return each(reinterpret_cast<double*>(buffer.data), [&] { return real() / 3.0; });
    case DType::kBF16:
      return each(reinterpret_cast<uint16_t*>(buffer.data), [&] { return FloatToBf16(real()); });
    case DType::kF16:
      return each(reinterpret_cast<uint16_t*>(buffer.data), [&] { return FloatToHalf(real()); });
    case DType::kI64:
      return each(reinterpret_cast<int64_t*>(buffer.data),
                  [&] { return static_cast<int64_t>(random.Next()) - (int64_t{1} << 31); });
    default:
      return each(reinterpret_cast<uint8_t*>(buffer.data),
                  [&] { return static_cast<uint8_t>(random.Next()); });
  }
}

inline std::vector<ConformanceCase> ConformanceCases(int ranks, int64_t large_bytes) {
  std::vector<ConformanceCase> cases;
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI64, DType::kU8}) {
    const int64_t large = large_bytes / BytesFor(dtype, 1) / 2 * 2 + 1;
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{2} * ranks + 1, int64_t{4099}, large}) {
      const ConformanceCase base = {.dtype = dtype, .count = count};
      const auto add = [&](CallKind kind, auto change) {
        cases.push_back(base);
        cases.back().kind = kind;
        change(cases.back());
      };
      const auto nothing = [](ConformanceCase&) {};
      const auto uneven = [](ConformanceCase& c) { c.even = false; };
      const auto in_place = [](ConformanceCase& c) { c.in_place = true; };
      if (IsReducible(dtype)) {
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kAverage}) {
          add(CallKind::kAllReduce, [&](ConformanceCase& c) { c.op = op; });
        }
        add(CallKind::kReduceScatter, nothing);
        add(CallKind::kReduceScatter, uneven);
        add(CallKind::kReduceScatter, in_place);
      }
      add(CallKind::kAllGather, nothing);
      add(CallKind::kAllGather, uneven);
      add(CallKind::kAllGather, in_place);
      add(CallKind::kAllToAll, nothing);
      add(CallKind::kAllToAll, uneven);
      for (int root = 0; root < ranks; ++root) {
        add(CallKind::kBroadcast, [&](ConformanceCase& c) { c.root = root; });
        add(CallKind::kSend, [&](ConformanceCase& c) { c.root = root; });
      }
    }
    cases.push_back({.kind = CallKind::kBarrier});
  }
  return cases;
}

// What the rank has received in the end; empty where it receives nothing.
inline absl::StatusOr<std::vector<std::byte>> RunCase(Communicator& comm, const ConformanceCase& c,
                                                      ConformanceBuffers& buffers) {
  const int rank = comm.rank(), size = comm.size();
  buffers.Clear();
  std::vector<int64_t> counts = EvenCounts(c.count, size);
  if (!c.even) {  // the first has nothing, the last half of what there is
    counts = EvenCounts(c.count, 2);
    counts.insert(counts.begin(), static_cast<size_t>(size - 2), 0);
    if (size > 2) std::swap(counts[0], counts[size - 2]);
  }
  const int64_t begin = Offsets(counts)[rank];
  const uint64_t seed = static_cast<uint64_t>(rank) + 1;
  const auto result = [](const Buffer& b) {
    return std::vector<std::byte>(b.data, b.data + (b.count > 0 ? b.bytes() : 0));
  };
  const auto part = [&](const Buffer& whole) {
    return Buffer{whole.data + BytesFor(c.dtype, begin), counts[rank], c.dtype, {}};
  };
  absl::Status status;
  std::vector<std::byte> received;
  const auto run = [&](Call call, const Buffer& out) {
    // By turns at once and in the communicator's thread.
    status = (c.count + static_cast<int64_t>(c.dtype)) % 2 == 0 ? comm.Run(std::move(call))
                                                                : comm.Start(std::move(call)).Wait();
    received = result(out);
  };
  switch (c.kind) {
    case CallKind::kAllReduce: {
      const Buffer b = buffers.Make(c.dtype, c.count);
      FillBuffer(b, seed);
      run(Call::AllReduce(b, c.op), b);
      break;
    }
    case CallKind::kReduceScatter: {
      const Buffer in = buffers.Make(c.dtype, c.count);
      const Buffer out = c.in_place ? part(in) : buffers.Make(c.dtype, counts[rank]);
      FillBuffer(in, seed);
      run(Call::ReduceScatter(in, out, counts, c.op), out);
      break;
    }
    case CallKind::kAllGather: {
      const Buffer out = buffers.Make(c.dtype, c.count);
      const Buffer in = c.in_place ? part(out) : buffers.Make(c.dtype, counts[rank]);
      FillBuffer(in, seed);
      run(Call::AllGather(in, out, counts), out);
      break;
    }
    case CallKind::kAllToAll: {
      // Each sends another number to each.
      const auto sent = [&](int from, int to) {
        return c.even ? c.count / size : counts[(from + to) % size];
      };
      std::vector<int64_t> in_counts, out_counts;
      for (int r = 0; r < size; ++r) {
        in_counts.push_back(sent(rank, r));
        out_counts.push_back(sent(r, rank));
      }
      const Buffer in = buffers.Make(c.dtype, Offsets(in_counts).back());
      const Buffer out = buffers.Make(c.dtype, Offsets(out_counts).back());
      FillBuffer(in, seed);
      run(Call::AllToAll(in, in_counts, out, out_counts), out);
      break;
    }
    case CallKind::kBroadcast: {
      const Buffer b = buffers.Make(c.dtype, c.count);
      FillBuffer(b, seed);
      run(Call::Broadcast(b, c.root), b);
      break;
    }
    case CallKind::kSend: {  // twice to the next rank
      const int to = (c.root + 1) % size;
      for (uint64_t i = 0; i < 2 && status.ok(); ++i) {
        const Buffer b = buffers.Make(c.dtype, c.count);
        if (rank == c.root) {
          FillBuffer(b, seed + i);
          status = comm.Run(Call::Send(b, to));
        } else if (rank == to) {
          run(Call::Receive(b, c.root), b);
        }
      }
      break;
    }
    default:
      status = comm.Run(Call::Barrier());
  }
  if (!status.ok()) return status;
  return received;
}

// Makes all calls as one of the ranks of `comm`, all of which call this alike; at least two.
inline std::vector<std::string> Conform(Communicator& comm, const ConformanceOptions& options = {}) {
  const std::vector<ConformanceCase> cases = ConformanceCases(comm.size(), options.large_bytes);
  std::vector<std::vector<std::byte>> expected(cases.size());
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadTransports(comm.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < comm.size(); ++r) {
    threads.emplace_back([&, r] {
      Communicator thread_comm(std::move(transports[r]));
      ConformanceBuffers buffers(thread_comm, ConformanceOptions::Memory::kHeap);
      for (size_t i = 0; i < cases.size(); ++i) {
        std::vector<std::byte> received = RunCase(thread_comm, cases[i], buffers).value();
        if (r == comm.rank()) expected[i] = std::move(received);
      }
    });
  }
  for (std::thread& t : threads) t.join();

  std::vector<std::string> failures;
  ConformanceBuffers buffers(comm, options.memory);
  for (size_t i = 0; i < cases.size(); ++i) {
    const absl::StatusOr<std::vector<std::byte>> received = RunCase(comm, cases[i], buffers);
    if (!received.ok()) {
      failures.push_back(StrCat(cases[i].Describe(), ": ", std::string(received.status().message())));
      break;  // it stays
    }
    if (*received == expected[i]) continue;
    const auto differs =
        std::mismatch(received->begin(), received->end(), expected[i].begin(), expected[i].end());
    failures.push_back(StrCat(cases[i].Describe(), ": byte ", differs.first - received->begin(), " of ",
                              received->size(), " differs"));
  }
  return failures;
}

}  // namespace ftune
