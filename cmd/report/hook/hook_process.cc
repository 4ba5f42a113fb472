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
constexpr int kCannotStart = 127;  // as a shell has it
constexpr int kFirstFree = STDERR_FILENO + 1;

absl::Status CannotStart(std::string_view what) {
  return UserError(
      ExitCode::kUsage,
      {.key = "log.hook", .message = StrCat("the command cannot be started: ", what, ": ", strerror(errno))});
}

// All that the child needs, made before it is.
struct Child {
  pid_t parent;
  char** arguments;
  char** environment;
  int input, output;
};

[[noreturn]] void Become(const Child& child) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != child.parent) _exit(kCannotStart);
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

}  // namespace

absl::StatusOr<HookProcess> HookProcess::Start(const HookCommand& command) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotStart("no pipe");
  const Descriptor read(ends[0]);
  Descriptor write(ends[1]);
  fcntl(write.get(), F_SETFL, O_NONBLOCK);
  const Descriptor output(open(command.output.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!output) return IoError(command.output, "write", errno);
  const Descriptor child_input = Above(read);
  const Descriptor child_output = Above(output);
  if (!child_input || !child_output) return CannotStart("no file descriptor");

  std::vector<std::string> arguments = {kShell, "-c", command.text};
  std::vector<std::string> environment = ExecEnvironment(command.environment);
  const std::vector<char*> argument_pointers = ExecPointers(arguments);
  const std::vector<char*> environment_pointers = ExecPointers(environment);
  const Child child = {.parent = getpid(),
                       .arguments = const_cast<char**>(argument_pointers.data()),
                       .environment = const_cast<char**>(environment_pointers.data()),
                       .input = child_input.get(),
                       .output = child_output.get()};
  const pid_t pid = fork();
  if (pid < 0) return CannotStart("fork");
  if (pid == 0) Become(child);
  setpgid(pid, pid);  // here too: it may be signalled before it has run
  return HookProcess(pid, std::move(write));
}

HookProcess::HookProcess(HookProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::move(other.input_)),
      status_(other.status_),
      reaped_(other.reaped_),
      left_(other.left_) {}

HookProcess::~HookProcess() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  while (!reaped_ && waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
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
