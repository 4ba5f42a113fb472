// Which processes of this host the kernel has killed because memory ran out.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

#include "base/descriptor.h"

namespace ftune {

// Of those that it kills from now on. By its log, where that may be read; and by the count of this process's
// control group, which its children share unless somebody moves them.
class OomKills {
 public:
  OomKills();
  // Of a process that SIGKILL has ended: whether the kernel sent it for that reason. Where only the count
  // tells, each one that is counted stands for one process that is asked for.
  bool Killed(pid_t pid);

 private:
  void ReadLog();
  int64_t Count() const;

  Descriptor log_;
  std::set<pid_t> logged_;
  std::string counter_;  // the file that has the count
  int64_t counted_ = 0;  // that are accounted for
};

// The process that a line of the kernel's log says was killed because memory ran out; 0: it says no such
// thing.
pid_t OomVictimOf(const std::string& line);

// The file with the count of a control group, in a line of /proc/self/cgroup, of version 2 or of version 1's
// controller of memory; empty where it is another controller's.
std::string OomCounterOf(const std::string& line);

}  // namespace ftune
