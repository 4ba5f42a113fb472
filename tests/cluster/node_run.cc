// node_run [-u USER] [-C FOLDER] [-e NAME=VALUE]... PID COMMAND...
//
// Runs a command in the namespaces of a process, as if it had been started there. What nsenter does not do:
// signals sent to node_run go on to the command, the command dies with node_run (by SIGKILL too), and
// node_run ends the way the command did, with its exit status or by its signal.

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int kOwnFailure = 125;  // as env and chroot have it
constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

volatile pid_t child = 0;

// What a terminal sends reaches the command by itself.
void Forward(int signal, siginfo_t* info, void*) {
  if (child > 0 && info->si_code <= 0) kill(child, signal);
}

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "node_run: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(kOwnFailure);
}

struct Options {
  std::string user = "root";
  std::string folder;  // empty: the user's home
  std::vector<char*> variables;
  std::string pid;
  char** command = nullptr;
};

Options Parse(int argc, char** argv) {
  Options options;
  for (int option; (option = getopt(argc, argv, "+u:C:e:")) != -1;) {
    if (option == 'u') options.user = optarg;
    if (option == 'C') options.folder = optarg;
    if (option == 'e') options.variables.push_back(optarg);
    if (option == '?') std::exit(kOwnFailure);
  }
  if (argc - optind < 2) {
    std::fputs("usage: node_run [-u USER] [-C FOLDER] [-e NAME=VALUE]... PID COMMAND...\n", stderr);
    std::exit(kOwnFailure);
  }
  options.pid = argv[optind];
  options.command = argv + optind + 1;
  return options;
}

void Enter(const std::string& pid) {
  std::vector<int> namespaces;
  for (const char* kind : {"ipc", "uts", "net", "pid", "mnt"}) {
    const std::string path = "/proc/" + pid + "/ns/" + kind;
    namespaces.push_back(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (namespaces.back() < 0) Fail(path);
  }
  for (const int fd : namespaces) {
    if (setns(fd, 0) != 0) Fail("setns");
  }
}

[[noreturn]] void Become(const Options& options, const passwd& user, const sigset_t& mask) {
  if (user.pw_uid != 0 &&
      (initgroups(user.pw_name, user.pw_gid) != 0 || setgid(user.pw_gid) != 0 || setuid(user.pw_uid) != 0)) {
    Fail("setuid");
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // after setuid, which undoes it
  for (const int signal : kForwarded) std::signal(signal, SIG_DFL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  clearenv();
  setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  setenv("LANG", "C.UTF-8", 1);
  setenv("HOME", user.pw_dir, 1);
  setenv("USER", user.pw_name, 1);
  setenv("LOGNAME", user.pw_name, 1);
  setenv("SHELL", user.pw_shell, 1);
  for (char* variable : options.variables) putenv(variable);
  const std::string folder = options.folder.empty() ? user.pw_dir : options.folder;
  if (chdir(folder.c_str()) != 0) Fail(folder);
  execvp(options.command[0], options.command);
  std::fprintf(stderr, "node_run: %s: %s\n", options.command[0], std::strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

[[noreturn]] void EndLike(int status) {
  if (WIFEXITED(status)) std::exit(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  std::signal(signal, SIG_DFL);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  std::raise(signal);
  std::exit(128 + signal);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  Enter(options.pid);
  const passwd* const user = getpwnam(options.user.c_str());  // the node's own
  if (user == nullptr) Fail(options.user);
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  child = fork();
  if (child < 0) Fail("fork");
  if (child == 0) Become(options, *user, before);
  struct sigaction action = {};
  action.sa_sigaction = Forward;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : kForwarded) sigaction(signal, &action, nullptr);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) Fail("waitpid");
  }
  EndLike(status);
}
