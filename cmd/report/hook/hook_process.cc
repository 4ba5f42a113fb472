#include "cmd/report/hook/hook_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/exec_words.h"
#include "base/io_error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kShell[] = "/bin/sh";
// Of the keeper: ends the group $1 when its standard input ends, on which nobody ever writes.
constexpr char kKeep[] = R"(read -r end; kill -s KILL -- "-$1" 2>/dev/null)";
constexpr int kCannotStart = 127;  // as a shell has it
constexpr int kFirstFree = STDERR_FILENO + 1;

absl::Status CannotStart(std::string_view what) {
  return UserError(
      ExitCode::kUsage,
      {.key = "log.hook", .message = StrCat("the command cannot be started: ", what, ": ", strerror(errno))});
}

// All that the child needs, made before it is.
struct Child {
  bool outlives;  // this process
  pid_t parent;
  char** arguments;
  char** environment;
  int input, output;
};

[[noreturn]] void Become(const Child& child) {
  if (!child.outlives) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != child.parent) _exit(kCannotStart);
  }
  setpgid(0, 0);
  // ftune ignores some signals, and blocks others.
  for (int signal = 1; signal < NSIG; ++signal) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const bool redirected = dup2(child.input, STDIN_FILENO) >= 0 && dup2(child.output, STDOUT_FILENO) >= 0 &&
                          dup2(child.output, STDERR_FILENO) >= 0;
  // A rank's own descriptors end with the rank, not with its hook.
  close_range(kFirstFree, UINT_MAX, 0);
  if (redirected) execve(kShell, child.arguments, child.environment);
  _exit(kCannotStart);
}

// One that stands in the way of none of the child's.
Descriptor Above(const Descriptor& descriptor) {
  return Descriptor(fcntl(descriptor.get(), F_DUPFD_CLOEXEC, kFirstFree));
}

struct Pipe {
  Descriptor read, write;
};

absl::StatusOr<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotStart("no pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

struct Shell {
  std::vector<std::string> words;  // after its name
  std::vector<std::string> environment;
  bool outlives = false;
};

// In a process group of its own; → its number.
absl::StatusOr<pid_t> StartShell(const Shell& shell, const Descriptor& input, const Descriptor& output) {
  const Descriptor child_input = Above(input);
  const Descriptor child_output = Above(output);
  if (!child_input || !child_output) return CannotStart("no file descriptor");
  std::vector<std::string> arguments = {kShell};
  arguments.insert(arguments.end(), shell.words.begin(), shell.words.end());
  std::vector<std::string> environment = ExecEnvironment(shell.environment);
  const std::vector<char*> argument_pointers = ExecPointers(arguments);
  const std::vector<char*> environment_pointers = ExecPointers(environment);
  const Child child = {.outlives = shell.outlives,
                       .parent = getpid(),
                       .arguments = const_cast<char**>(argument_pointers.data()),
                       .environment = const_cast<char**>(environment_pointers.data()),
                       .input = child_input.get(),
                       .output = child_output.get()};
  const pid_t pid = fork();
  if (pid < 0) return CannotStart("fork");
  if (pid == 0) Become(child);
  setpgid(pid, pid);  // here too: it may be signalled before it has run
  return pid;
}

void AwaitEnd(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

absl::StatusOr<HookProcess> HookProcess::Start(const HookCommand& command) {
  FTUNE_ASSIGN_OR_RETURN(Pipe input, MakePipe());
  FTUNE_ASSIGN_OR_RETURN(Pipe life, MakePipe());
  fcntl(input.write.get(), F_SETFL, O_NONBLOCK);
  const Descriptor output(open(command.output.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!output) return IoError(command.output, "write", errno);
  FTUNE_ASSIGN_OR_RETURN(
      const pid_t pid,
      StartShell({.words = {"-c", command.text}, .environment = command.environment}, input.read, output));
  HookProcess process(pid, std::move(input.write), std::move(life.write));
  FTUNE_ASSIGN_OR_RETURN(process.keeper_, StartShell({.words = {"-c", kKeep, kShell, StrCat(pid)},
                                                      .environment = command.environment,
                                                      .outlives = true},
                                                     life.read, output));
  return process;
}

HookProcess::HookProcess(HookProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      keeper_(std::exchange(other.keeper_, -1)),
      input_(std::move(other.input_)),
      life_(std::move(other.life_)),
      status_(other.status_),
      reaped_(other.reaped_),
      left_(other.left_) {}

HookProcess::~HookProcess() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  // Before the group's number may be another's.
  if (keeper_ >= 0) {
    kill(keeper_, SIGKILL);
    AwaitEnd(keeper_);
  }
  if (!reaped_) AwaitEnd(pid_);
}

std::optional<int> HookProcess::Ended() {
  siginfo_t end = {};
  const int wanted = WEXITED | WNOHANG | WNOWAIT;
  if (!status_ && waitid(P_PID, static_cast<id_t>(pid_), &end, wanted) == 0 && end.si_pid == pid_) {
    status_ = end.si_code == CLD_EXITED ? end.si_status << 8 : end.si_status;
  }
  return status_;
}

bool HookProcess::HasGone() {
  if (!Ended()) return false;
  reaped_ = reaped_ || waitpid(pid_, nullptr, WNOHANG) == pid_;
  left_ = left_ && kill(-pid_, 0) == 0;
  return !left_;
}

void HookProcess::Signal(int signal) {
  if (left_) kill(-pid_, signal);
}

}  // namespace ftune
