// A command with which this process speaks: over its standard input and output, while its standard error is
// kept.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/descriptor.h"

namespace ftune {

class CommandProcess {
 public:
  // `arguments`: the program, found on PATH, and its arguments. It has a process group of its own, and dies
  // with the thread that calls this, which must be the program's main one.
  static absl::StatusOr<CommandProcess> Start(const std::vector<std::string>& arguments);
  CommandProcess(CommandProcess&& other) noexcept;
  CommandProcess& operator=(CommandProcess&&) = delete;
  ~CommandProcess();  // kills it

  // To be taken once.
  Descriptor TakeInput() { return std::move(input_); }
  Descriptor TakeOutput() { return std::move(output_); }
  // Waits until it has ended or `timeout` has passed; → its wait status.
  std::optional<int> Wait(absl::Duration timeout);
  void Kill();
  // The end of what it has written to standard error, in one line.
  std::string Complaint();

 private:
  CommandProcess(pid_t pid, Descriptor input, Descriptor output, Descriptor errors);
  void ReadErrors();

  pid_t pid_;
  std::optional<int> status_;
  Descriptor input_, output_, errors_;
  std::string complaint_;
};

}  // namespace ftune
