#include "base/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/exec_words.h"
#include "base/strings.h"

namespace ftune {
namespace {

absl::Status CannotRun(const std::string& program, int error) {
  if (error == ENOENT) return absl::NotFoundError(StrCat("there is no program ", program, " in PATH"));
  return UserError(ExitCode::kRankFailed,
                   {.key = program, .message = StrCat("cannot be run: ", strerror(error))});
}

struct Pipe {
  Descriptor read, write;
};

absl::StatusOr<Pipe> MakePipe(const std::string& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return CannotRun(program, errno);
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

std::vector<std::string> Environment(bool (*drops)(std::string_view)) {
  std::vector<std::string> kept;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    if (drops == nullptr || !drops(text.substr(0, text.find('=')))) kept.emplace_back(text);
  }
  return kept;
}

// Its process number.
absl::StatusOr<pid_t> Spawn(std::vector<std::string> words, const Pipe& output, const Pipe& errors,
                            bool (*drops)(std::string_view)) {
  std::vector<std::string> variables = Environment(drops);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.write.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors.write.get(), STDERR_FILENO);
  // ftune ignores some signals, which programs would inherit.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, words[0].c_str(), &actions, &attributes, ExecPointers(words).data(),
                                 ExecPointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return CannotRun(words[0], error);
  return pid;
}

// Takes what there is. Closes the pipe at its end.
void Read(Descriptor& pipe, std::string& text) {
  std::array<char, 4096> bytes;
  const ssize_t count = read(pipe.get(), bytes.data(), bytes.size());
  if (count > 0) text.append(bytes.data(), static_cast<size_t>(count));
  if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) pipe = Descriptor();
}

}  // namespace

absl::StatusOr<ProgramEnd> RunProgram(const std::vector<std::string>& words,
                                      bool (*drops)(std::string_view name)) {
  FTUNE_ASSIGN_OR_RETURN(Pipe output, MakePipe(words[0]));
  FTUNE_ASSIGN_OR_RETURN(Pipe errors, MakePipe(words[0]));
  FTUNE_ASSIGN_OR_RETURN(const pid_t pid, Spawn(words, output, errors, drops));
  output.write = Descriptor();
  errors.write = Descriptor();
  ProgramEnd end;
  while (output.read || errors.read) {
    pollfd waits[] = {{.fd = output.read.get(), .events = POLLIN},
                      {.fd = errors.read.get(), .events = POLLIN}};
    if (poll(waits, std::size(waits), -1) < 0) continue;
    if (waits[0].revents != 0) Read(output.read, end.output);
    if (waits[1].revents != 0) Read(errors.read, end.errors);
  }
  while (waitpid(pid, &end.wait_status, 0) < 0 && errno == EINTR) {
  }
  return end;
}

}  // namespace ftune
