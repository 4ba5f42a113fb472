#include "base/process_start.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "base/strings.h"

namespace ftune {

std::optional<int64_t> ProcessStart(pid_t pid) {
  std::ifstream file(StrCat("/proc/", pid, "/stat"));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const size_t name_end = text.rfind(')');  // the name before it may have anything in it
  if (name_end == std::string::npos) return std::nullopt;
  constexpr int kState = 3, kStart = 22;  // fields as proc(5) counts them
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int number = kState; fields >> field; ++number) {
    if (number == kState && (field == "Z" || field == "X")) return std::nullopt;
    if (number == kStart) return std::stoll(field);
  }
  return std::nullopt;
}

}  // namespace ftune
