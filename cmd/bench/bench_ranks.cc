#include "cmd/bench/bench_ranks.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/shm_transport.h"
#include "parallel/launch/core_shares.h"
#include "parallel/launch/random_token.h"

namespace ftune {
namespace {

// Sets the cores of this process for as long as it lives.
class Pinned {
 public:
  explicit Pinned(const std::vector<int>& cores) {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(core, &set);
    sched_setaffinity(0, sizeof(set), &set);
  }
  ~Pinned() { sched_setaffinity(0, sizeof(before_), &before_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_;
};

// Processes that are gone when this is.
class Children {
 public:
  Children() = default;
  ~Children() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) {
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void Add(pid_t child) { children_.push_back(child); }

 private:
  std::vector<pid_t> children_;
};

absl::Status RunRank(int rank, int ranks, const std::string& name, const std::vector<int>& cores,
                     const std::function<absl::Status(Communicator&)>& work) {
  const Pinned pinned(cores);
  FTUNE_ASSIGN_OR_RETURN(
      std::unique_ptr<Transport> transport,
      JoinSharedMemory({.rank = rank, .size = ranks, .name = name, .timeout = absl::Minutes(1)}));
  Communicator communicator(std::move(transport));
  FTUNE_RETURN_IF_ERROR(work(communicator));
  return communicator.Run(Call::Barrier());
}

}  // namespace

absl::Status RunOnRanks(int ranks, const std::function<absl::Status(Communicator& ranks)>& work) {
  const std::vector<std::vector<int>> cores = ShareCores(AllowedCores(), ranks);
  const std::string name = StrCat("ftune-bench-", RandomToken());
  const pid_t parent = getpid();
  Children children;
  for (int rank = 1; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) return absl::ErrnoToStatus(errno, "no process for a rank");
    if (child > 0) {
      children.Add(child);
      continue;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // What the rank would say, rank 0 says too.
    _exit(getppid() == parent && RunRank(rank, ranks, name, cores[rank], work).ok() ? 0 : 1);
  }
  return RunRank(0, ranks, name, cores[0], work);
}

}  // namespace ftune
