// Rates of the collectives between processes of this host, beside what copying memory allows: the time that
// as many processes at once take to memcpy as many bytes which another of them wrote, measured by turns with
// the calls.
//   comm_bench [RANKS...]      (2 and 4 if none are given)
//
// A call on a buffer of B bytes touches on each of n ranks, reads and writes counted, buffers in shared
// memory:
//   all_gather      reads (n-1)/n B, writes as much; its own share is in place
//   reduce_scatter  reads B (a share of each rank's), writes B/n
//   all_reduce      reads B, writes B/n; then reads and writes (n-1)/n B
//   send            reads B and writes B, on one of two ranks; the memcpy too is made by one alone
// memcpy of x bytes touches 2 x. The percentage is the time of memcpy for as many touched bytes, over the
// time of the call.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/scratch_folder.h"
#include "base/strings.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/gloo_transport.h"
#include "parallel/comm/shm_transport.h"
#include "tests/unit/parallel/folder_store.h"

namespace ftune {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", std::string(value.status().message()).c_str());
  _exit(1);
}

// Memory of all ranks, from before they were forked: what memcpy reads.
class Neighbours {
 public:
  Neighbours(int ranks, int64_t bytes) : ranks_(ranks), bytes_(bytes) {
    void* data = mmap(nullptr, static_cast<size_t>(bytes * ranks), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) std::abort();
    data_ = static_cast<std::byte*>(data);
  }
  ~Neighbours() { munmap(data_, static_cast<size_t>(bytes_ * ranks_)); }
  std::byte* of(int rank) const { return data_ + bytes_ * (rank % ranks_); }

 private:
  int ranks_;
  int64_t bytes_;
  std::byte* data_;
};

struct Operation {
  CallKind kind;
  double touched;  // bytes for each of the buffer
  int64_t smallest = 0;
};

std::vector<Operation> Operations(int ranks) {
  const double share = 1.0 / ranks;
  constexpr int64_t kShare = 64 << 10;  // what is worth sharing out
  std::vector<Operation> operations = {{CallKind::kAllReduce, 1 + share + 2 * (1 - share), kShare},
                                       {CallKind::kReduceScatter, 1 + share, kShare},
                                       {CallKind::kAllGather, 2 * (1 - share), kShare}};
  if (ranks == 2) operations.push_back({CallKind::kSend, 2});
  return operations;
}
constexpr double kMostTouched = 3;

Call MakeCall(CallKind kind, const Buffer& buffer, std::byte* out, int rank, int ranks) {
  const std::vector<int64_t> counts = EvenCounts(buffer.count, ranks);
  const Buffer share = {
      buffer.data + BytesFor(buffer.dtype, Offsets(counts)[rank]), counts[rank], buffer.dtype, {}};
  if (kind == CallKind::kReduceScatter) {
    return Call::ReduceScatter(buffer, {out, counts[rank], buffer.dtype, {}}, counts);
  }
  if (kind == CallKind::kSend) return rank == 0 ? Call::Send(buffer, 1) : Call::Receive(buffer, 0);
  if (kind == CallKind::kAllGather) return Call::AllGather(share, buffer, counts);
  return Call::AllReduce(buffer);
}

struct Medium {
  const char* name;
  Communicator* comm;
  bool allocated;  // the buffers, with Communicator::Allocate
};

class Bench {
 public:
  Bench(Communicator& comm, const Neighbours& neighbours, std::vector<Medium> media)
      : comm_(comm), neighbours_(neighbours), media_(std::move(media)) {}

  void Run(int64_t bytes) {
    std::vector<SharedBytes> buffers;
    std::vector<std::unique_ptr<std::byte[]>> heap;
    for (const Medium& medium : media_) {
      if (medium.allocated) {
        buffers.push_back(Must(medium.comm->Allocate(bytes)));
      } else {
        heap.push_back(std::make_unique<std::byte[]>(static_cast<size_t>(bytes)));
        buffers.push_back({std::shared_ptr<std::byte>(heap.back().get(), [](std::byte*) {}), bytes});
      }
    }
    const SharedBytes out = Must(comm_.Allocate(static_cast<int64_t>(kMostTouched / 2 * bytes)));
    for (const Operation& operation : Operations(comm_.size())) {
      if (bytes < operation.smallest) continue;
      const bool copies_too = operation.kind != CallKind::kSend || comm_.rank() == 1;
      const auto copied = static_cast<size_t>(operation.touched / 2 * static_cast<double>(bytes));
      std::vector<double> copies;
      std::vector<std::vector<double>> calls(media_.size());
      const int rounds = static_cast<int>(std::clamp<int64_t>((int64_t{1} << 30) / bytes, 9, 300));
      for (int i = 0; i < rounds + kWarmUp; ++i) {
        std::memset(neighbours_.of(comm_.rank()), 0, copied);
        copies.push_back(Seconds([&] {
          if (copies_too) std::memcpy(out.data.get(), neighbours_.of(comm_.rank() + 1), copied);
        }));
        for (size_t m = 0; m < media_.size(); ++m) {
          std::memset(buffers[m].data.get(), 0, static_cast<size_t>(bytes));
          const Call call = MakeCall(operation.kind, {buffers[m].data.get(), bytes / 4, DType::kF32, {}},
                                     out.data.get(), comm_.rank(), comm_.size());
          calls[m].push_back(Seconds([&] {
            if (!media_[m].comm->Run(call).ok()) _exit(1);
          }));
        }
      }
      if (comm_.rank() == 0) Print(operation, bytes, copies, calls);
    }
  }

 private:
  static constexpr int kWarmUp = 2;  // pages are touched for the first time

  // Of the slowest rank.
  double Seconds(const std::function<void()>& run) {
    Must(comm_.AllReduce(0.0));  // together
    const double begin = Now();
    run();
    return Must(comm_.AllReduce(Now() - begin, ReduceOp::kMax));
  }

  void Print(const Operation& operation, int64_t bytes, const std::vector<double>& copies,
             const std::vector<std::vector<double>>& calls) {
    // The first quarter: other work on the machine only adds.
    const auto quartile = [](std::vector<double> times) {
      times.erase(times.begin(), times.begin() + kWarmUp);
      std::nth_element(times.begin(), times.begin() + times.size() / 4, times.end());
      return times[times.size() / 4];
    };
    const double touched = operation.touched * static_cast<double>(bytes) * 1e-9;
    const double copy = quartile(copies);
    std::printf("%d ranks  %-14s %8.3f MiB   memcpy %8.3f ms %5.1f GB/s", comm_.size(),
                std::string(Name(operation.kind)).c_str(), static_cast<double>(bytes) / (1 << 20), copy * 1e3,
                touched / copy);
    for (size_t m = 0; m < media_.size(); ++m) {
      const double time = quartile(calls[m]);
      std::printf("   %s %8.3f ms %5.1f GB/s %3.0f %%", media_[m].name, time * 1e3, touched / time,
                  100 * copy / time);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  Communicator& comm_;
  const Neighbours& neighbours_;
  std::vector<Medium> media_;
};

constexpr int64_t kSizes[] = {int64_t{1} << 10, int64_t{64} << 10, int64_t{1} << 20, int64_t{16} << 20,
                              int64_t{256} << 20};

void RunRank(int rank, int ranks, const Neighbours& neighbours, const std::filesystem::path& store) {
  // As ftune pins its ranks.
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(rank % sysconf(_SC_NPROCESSORS_ONLN), &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
  Communicator shm(Must(
      JoinSharedMemory({.rank = rank, .size = ranks, .name = StrCat("comm_bench-", getppid(), "-", ranks)})));
  const double begin = Now();
  constexpr int kCalls = 2000;
  for (int i = 0; i < kCalls; ++i) Must(shm.AllReduce(1.0));
  if (rank == 0) {
    std::printf("%d ranks  all_reduce of a number: shm %.1f us\n", ranks, (Now() - begin) / kCalls * 1e6);
  }
  Communicator gloo(Must(JoinGloo({.rank = rank,
                                   .size = ranks,
                                   .store = std::make_shared<FolderStore>(store),
                                   .prefix = StrCat("comm_bench-", ranks, "/"),
                                   .address = "127.0.0.1",
                                   .timeout = absl::Minutes(5)})));
  Bench bench(shm, neighbours,
              {{"shm", &shm, true}, {"shm, heap buffers", &shm, false}, {"gloo, loopback", &gloo, true}});
  for (const int64_t bytes : kSizes) bench.Run(bytes);
}

int Main(int argc, char** argv) {
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {2, 4};
  bool ok = true;
  const absl::StatusOr<ScratchFolder> folder = ScratchFolder::Create();
  if (!folder.ok()) return 1;
  for (const int ranks : sizes) {
    const Neighbours neighbours(ranks,
                                static_cast<int64_t>(kMostTouched / 2 * kSizes[std::size(kSizes) - 1]));
    for (int rank = 0; rank < ranks; ++rank) {
      std::fflush(stdout);
      if (fork() != 0) continue;
      RunRank(rank, ranks, neighbours, folder->path());
      std::fflush(stdout);
      _exit(0);
    }
    for (int status = 0; wait(&status) > 0;) ok = ok && status == 0;
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace ftune

int main(int argc, char** argv) { return ftune::Main(argc, argv); }
