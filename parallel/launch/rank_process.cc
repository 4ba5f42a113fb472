#include "parallel/launch/rank_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/exec_words.h"
#include "base/io_error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr int kFirstFree = kPulseDescriptor + 1;
constexpr int kCannotStart = 127;  // as a shell has it

absl::Status CannotStart(std::string_view action) {
  return UserError(ExitCode::kRankFailed,
                   {.key = "launch",
                    .message = StrCat("a rank cannot be started: ", action, ": ", strerror(errno)),
                    .hint = "lower the number of ranks, or raise the limits of this user"});
}

struct Pipe {
  Descriptor read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotStart("no pipe");
  Pipe pipe{Descriptor(ends[0]), Descriptor(ends[1])};
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

// A file without a name, to be read from its begin.
absl::StatusOr<Descriptor> InputOf(const std::string& text) {
  if (text.empty()) return Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Descriptor file(memfd_create("input", MFD_CLOEXEC));
  const bool whole = file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!whole || lseek(file.get(), 0, SEEK_SET) != 0) return CannotStart("no memory for its input");
  return file;
}

// All that the child needs, made before it is: between fork and exec nothing may be allocated.
struct Child {
  pid_t parent;
  char** arguments;
  char** environment;
  int input, output, report, pulse;
  const cpu_set_t* cores;
};

[[noreturn]] void Become(const Child& child) {
  // Who started it may be gone already, and then the signal never comes.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child.parent) _exit(kCannotStart);
  setpgid(0, 0);
  // Where it cannot be pinned it runs anywhere.
  if (child.cores != nullptr) sched_setaffinity(0, sizeof(cpu_set_t), child.cores);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool redirected = dup2(child.input, STDIN_FILENO) >= 0 && dup2(child.output, STDOUT_FILENO) >= 0 &&
                          dup2(child.output, STDERR_FILENO) >= 0 &&
                          dup2(child.report, kReportDescriptor) >= 0 &&
                          dup2(child.pulse, kPulseDescriptor) >= 0;
  if (redirected) execve("/proc/self/exe", child.arguments, child.environment);
  _exit(kCannotStart);
}

// A duplicate that stands in the way of none of the child's descriptors.
Descriptor Above(int fd) { return Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, kFirstFree)); }

}  // namespace

absl::StatusOr<RankProcess> StartRank(const RankCommand& command) {
  FTUNE_ASSIGN_OR_RETURN(Pipe report, MakePipe());
  FTUNE_ASSIGN_OR_RETURN(PulsePage pulse, PulsePage::Create());
  FTUNE_ASSIGN_OR_RETURN(const Descriptor input, InputOf(command.input));
  const Descriptor output(open(command.output.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666));
  if (!output) return IoError(command.output, "write", errno);
  const Descriptor child_input = Above(input.get());
  const Descriptor child_output = Above(output.get());
  const Descriptor child_report = Above(report.write.get());
  const Descriptor child_pulse = Above(pulse.descriptor());
  if (!child_input || !child_output || !child_report || !child_pulse) {
    return CannotStart("no file descriptor");
  }

  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment = ExecEnvironment(command.environment);
  std::vector<char*> argument_pointers = ExecPointers(arguments);
  std::vector<char*> environment_pointers = ExecPointers(environment);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const int core : command.cores) {
    if (core < CPU_SETSIZE) CPU_SET(core, &cores);
  }
  const Child child{.parent = getpid(),
                    .arguments = argument_pointers.data(),
                    .environment = environment_pointers.data(),
                    .input = child_input.get(),
                    .output = child_output.get(),
                    .report = child_report.get(),
                    .pulse = child_pulse.get(),
                    .cores = CPU_COUNT(&cores) > 0 ? &cores : nullptr};
  const pid_t pid = fork();
  if (pid < 0) return CannotStart("fork");
  if (pid == 0) Become(child);
  setpgid(pid, pid);  // here too: it may be signalled before it has run
  return RankProcess{.pid = pid, .report = std::move(report.read), .pulse = std::move(pulse)};
}

}  // namespace ftune
