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
  return StrCat(HostName(), "/", boot, "/", known ? network.st_ino : 0);
}

std::string HostName() {
  utsname names = {};
  uname(&names);
  return names.nodename;
}

}  // namespace ftune
