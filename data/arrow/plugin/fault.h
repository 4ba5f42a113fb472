// What went wrong in the plugin, in the parts of FtuneArrowError.
#pragma once

#include <cstdint>
#include <string>

namespace ftune::arrow_plugin {

struct Fault {
  int64_t row = 0;     // 1-based; 0: the file as a whole
  std::string column;  // "messages.content"
  std::string message;
  bool value = false;  // one value of the row is to blame: the rows after it can be read
};

}  // namespace ftune::arrow_plugin
