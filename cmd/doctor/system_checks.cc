// The machine, its system, and what they leave a process.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/descriptor.h"
#include "base/strings.h"
#include "cmd/doctor/cgroup.h"
#include "cmd/doctor/host_checks.h"
#include "cmd/plan/host_memory.h"
#include "cmd/report/progress.h"
#include "engine/backend/cpu/cpu_facts.h"
#include "parallel/launch/core_shares.h"
#include "parallel/launch/program_hash.h"

namespace ftune {
namespace {

constexpr int64_t kLeastMemory = int64_t{512} << 20;
constexpr rlim_t kLeastFiles = 256;

// The value of the first line of a file that begins with `name`, which whatever stands between them follows.
std::string ValueIn(const char* file, std::string_view name, std::string_view between) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    const size_t begin = line.find(between);
    if (begin == std::string::npos) continue;
    const size_t value = line.find_first_not_of(" \t\"", begin + between.size());
    if (value == std::string::npos) continue;
    return line.substr(value, line.find_last_not_of(" \t\"") + 1 - value);
  }
  return "";
}

std::string DescribeLimit(rlim_t limit, std::string (*describe)(int64_t)) {
  return limit == RLIM_INFINITY ? "no limit" : describe(static_cast<int64_t>(limit));
}

}  // namespace

Check CheckProgram() { return {.name = "ftune", .detail = StrCat(FTUNE_VERSION, ", build ", ProgramHash())}; }

Check CheckSystem() {
  utsname names = {};
  uname(&names);
  const std::string name = ValueIn("/etc/os-release", "PRETTY_NAME", "=");
  return {.name = "system",
          .detail = StrCat(name.empty() ? "" : StrCat(name, ", "), names.sysname, " ", names.release, ", ",
                           names.machine)};
}

Check CheckClock() {
  timex facts = {};
  const int state = adjtimex(&facts);
  const bool synchronised = state >= 0 && state != TIME_ERROR && (facts.status & STA_UNSYNC) == 0;
  return {.name = "clock",
          .detail = StrCat(absl::FormatTime("%Y-%m-%d %H:%M:%E3S UTC", absl::Now(), absl::UTCTimeZone()),
                           synchronised ? ", synchronised" : ", not synchronised by this system")};
}

Check CheckCpu() {
  std::string model = ValueIn("/proc/cpuinfo", "model name", ":");
  if (model.empty()) model = "a CPU that does not say its name";
  const auto allowed = static_cast<double>(AllowedCores().size());
  Check check = {.name = "cpu",
                 .detail = absl::StrFormat("%s; %.0f of %d cores are allowed", model, allowed,
                                           sysconf(_SC_NPROCESSORS_CONF))};
  const std::optional<double> quota = ReadCgroupLimits().cores;
  if (!quota) return check;
  StrAppend(check.detail, absl::StrFormat(", with the time of %.3g (cgroup)", *quota));
  // A rank's threads wait for each other: what stands still holds up the others.
  constexpr double kAsGood = 0.9;
  check.ok = *quota >= kAsGood * allowed;
  if (!check.ok)
    StrAppend(check.detail, ": set launch.threads, so that all ranks have no more threads than that");
  return check;
}

Check CheckKernels() {
  return {.name = "kernels", .detail = StrCat(KernelTarget(), "; products by ", MatrixLibrary())};
}

Check CheckMemory() {
  const int64_t available = MemoryFact("MemAvailable");
  const std::optional<int64_t> limit = ReadCgroupLimits().memory;
  const int64_t total = MemoryFact("MemTotal");
  const bool is_limited = limit && *limit < total;
  Check check = {.name = "memory",
                 .ok = std::min(available, limit.value_or(available)) >= kLeastMemory,
                 .detail = StrCat(
                     HumanBytes(total), ", of which ", HumanBytes(available), " are free",
                     is_limited ? StrCat("; this process may have ", HumanBytes(*limit), " (cgroup)") : "")};
  return check;
}

// Ranks of one host share memory that has no name; /dev/shm is not needed.
Check CheckSharedMemory() {
  constexpr size_t kBytes = 1 << 20;
  const Descriptor file(memfd_create("doctor", MFD_CLOEXEC));
  void* mapped = MAP_FAILED;
  if (file && ftruncate(file.get(), kBytes) == 0) {
    mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  }
  if (mapped == MAP_FAILED) {
    return {.name = "shared memory",
            .ok = false,
            .detail = StrCat("memfd_create does not work: ", strerror(errno), "; ranks of one host need it")};
  }
  munmap(mapped, kBytes);
  return {.name = "shared memory", .detail = "memfd works; /dev/shm is not needed"};
}

Check CheckLimits() {
  rlimit files = {}, locked = {}, processes = {}, space = {};
  getrlimit(RLIMIT_NOFILE, &files);
  getrlimit(RLIMIT_MEMLOCK, &locked);
  getrlimit(RLIMIT_NPROC, &processes);
  getrlimit(RLIMIT_AS, &space);
  const auto number = [](int64_t value) { return StrCat(value); };
  Check check = {
      .name = "limits",
      .ok = files.rlim_cur >= kLeastFiles,
      .detail = StrCat("open files ", DescribeLimit(files.rlim_cur, number), " (", kLeastFiles,
                       " are enough), locked memory ", DescribeLimit(locked.rlim_cur, HumanBytes),
                       " (none is needed), processes ", DescribeLimit(processes.rlim_cur, number))};
  if (space.rlim_cur != RLIM_INFINITY) {
    StrAppend(check.detail, ", address space ", DescribeLimit(space.rlim_cur, HumanBytes));
  }
  if (!check.ok) StrAppend(check.detail, ": raise the number of open files (ulimit -n)");
  return check;
}

}  // namespace ftune
