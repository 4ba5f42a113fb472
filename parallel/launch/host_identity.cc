#include "parallel/launch/host_identity.h"

#include <sys/stat.h>
#include <sys/utsname.h>

#include <fstream>

#include "base/strings.h"

namespace ftune {

std::string HostIdentity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network = {};
  const bool known = stat("/proc/self/ns/net", &network) == 0;
  utsname names = {};
  uname(&names);
  return StrCat(names.nodename, "/", boot, "/", known ? network.st_ino : 0);
}

}  // namespace ftune
