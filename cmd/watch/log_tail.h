// Follows a file of JSON lines that another process, or another thread, appends to: log.jsonl.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/descriptor.h"

namespace ftune {

class LogTail {
 public:
  enum class From { kBegin, kEnd };
  // kEnd: what is in the file now is of no interest. There may be no file yet.
  LogTail(std::filesystem::path path, From from);

  struct News {
    bool anew = false;                  // the file was replaced or cut: what was read before does not count
    std::vector<nlohmann::json> lines;  // objects; a line that is none is left out
  };
  // What has come since. A last line without its end is not read: whoever writes it may add to it, or cut it
  // off.
  News Take();

 private:
  // Whether the file that is open is not the one of that name any more.
  bool IsReplaced() const;

  std::filesystem::path path_;
  Descriptor file_;  // kept open, so that a new file cannot have its number
  off_t at_ = 0;     // behind the last line that is whole
};

}  // namespace ftune
