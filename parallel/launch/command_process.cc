#include "parallel/launch/command_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/exec_words.h"
#include "base/monotonic_clock.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr size_t kMostComplaint = 1000;
constexpr absl::Duration kPoll = absl::Milliseconds(5);

absl::Status CannotStart(const std::string& program, std::string_view what) {
  const int error = errno;
  return UserError(
      ExitCode::kRankFailed,
      {.key = "launch", .message = StrCat(program, " cannot be started: ", what, ": ", strerror(error))});
}

using Pipe = std::array<Descriptor, 2>;  // read, write

absl::StatusOr<Pipe> MakePipe(const std::string& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotStart(program, "no pipe");
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

[[noreturn]] void Become(pid_t parent, char** arguments, int input, int output, int errors, int failed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
      dup2(errors, STDERR_FILENO) >= 0) {
    execvp(arguments[0], arguments);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(failed, &error, sizeof(error));
  _exit(127);
}

}  // namespace

absl::StatusOr<CommandProcess> CommandProcess::Start(const std::vector<std::string>& arguments) {
  const std::string& program = arguments[0];
  FTUNE_ASSIGN_OR_RETURN(Pipe input, MakePipe(program));
  FTUNE_ASSIGN_OR_RETURN(Pipe output, MakePipe(program));
  FTUNE_ASSIGN_OR_RETURN(Pipe errors, MakePipe(program));
  FTUNE_ASSIGN_OR_RETURN(Pipe failed, MakePipe(program));
  std::vector<std::string> words = arguments;
  std::vector<char*> pointers = ExecPointers(words);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return CannotStart(program, "fork");
  if (pid == 0) {
    Become(parent, pointers.data(), input[0].get(), output[1].get(), errors[1].get(), failed[1].get());
  }
  failed[1] = Descriptor();
  int error = 0;
  if (read(failed[0].get(), &error, sizeof(error)) == sizeof(error)) {
    waitpid(pid, nullptr, 0);
    errno = error;
    return CannotStart(program, "exec");
  }
  fcntl(errors[0].get(), F_SETFL, O_NONBLOCK);
  return CommandProcess(pid, std::move(input[1]), std::move(output[0]), std::move(errors[0]));
}

CommandProcess::CommandProcess(pid_t pid, Descriptor input, Descriptor output, Descriptor errors)
    : pid_(pid), input_(std::move(input)), output_(std::move(output)), errors_(std::move(errors)) {}

CommandProcess::CommandProcess(CommandProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      status_(other.status_),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)),
      complaint_(std::move(other.complaint_)) {}

CommandProcess::~CommandProcess() {
  if (pid_ < 0) return;
  Kill();
  Wait(absl::InfiniteDuration());
}

std::optional<int> CommandProcess::Wait(absl::Duration timeout) {
  const absl::Duration deadline = MonotonicNow() + timeout;
  while (!status_) {
    ReadErrors();  // it may wait for somebody who reads them
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      status_ = status;
    } else if (MonotonicNow() >= deadline) {
      break;
    } else {
      absl::SleepFor(kPoll);
    }
  }
  return status_;
}

void CommandProcess::Kill() {
  if (!status_) kill(-pid_, SIGKILL);
}

void CommandProcess::ReadErrors() {
  char bytes[4096];
  while (errors_) {
    const ssize_t count = read(errors_.get(), bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      errors_ = Descriptor();
      return;
    }
    complaint_.append(bytes, static_cast<size_t>(count));
    if (complaint_.size() > kMostComplaint) complaint_.erase(0, complaint_.size() - kMostComplaint);
  }
}

std::string CommandProcess::Complaint() {
  ReadErrors();
  std::string line;
  for (const char c : complaint_) {
    if (c == '\r') continue;
    line += c == '\n' ? std::string("; ") : std::string(1, c);
  }
  while (line.ends_with("; ")) line.resize(line.size() - 2);
  return line;
}

}  // namespace ftune
