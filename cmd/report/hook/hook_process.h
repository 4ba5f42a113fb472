// The command of log.hook, running.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/descriptor.h"

namespace ftune {

struct HookCommand {
  std::string text;                      // for /bin/sh -c, in this process's folder
  std::filesystem::path output;          // to whose end all goes that it prints
  std::vector<std::string> environment;  // NAME=value, beside this process's own and in their place
};

// A process group of its own: what a terminal sends to this process's does not reach it.
class HookProcess {
 public:
  // It dies with the thread that calls this (PR_SET_PDEATHSIG), which must be the program's main one; and
  // what it has started dies with this process, which a keeper, a shell beside it, waits for.
  static absl::StatusOr<HookProcess> Start(const HookCommand& command);
  HookProcess(HookProcess&& other) noexcept;
  HookProcess& operator=(HookProcess&&) = delete;
  ~HookProcess();  // kills what is left of it

  // Where it reads; never blocks.
  int input() const { return input_.get(); }
  void CloseInput() { input_ = Descriptor(); }
  // The wait status of the shell, once it has ended. Its number, and that of the group, stays its own.
  std::optional<int> Ended();
  // Whether neither the shell nor anything that it has started, and that has stayed in its group, is left. To
  // be asked at the end only: other processes may get a number that nothing has any more.
  bool HasGone();
  void Signal(int signal);

 private:
  HookProcess(pid_t pid, Descriptor input, Descriptor life)
      : pid_(pid), input_(std::move(input)), life_(std::move(life)) {}

  pid_t pid_;  // and its process group
  pid_t keeper_ = -1;
  Descriptor input_;
  Descriptor life_;  // this process holds it alone: when it is closed the keeper ends the group
  std::optional<int> status_;
  bool reaped_ = false;
  bool left_ = true;  // something of the group
};

}  // namespace ftune
