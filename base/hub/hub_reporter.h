// What a download says of itself while it goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace ftune {

struct Transfer {
  std::string repo;
  int64_t files = 0;
  int64_t bytes = 0;  // here already, those of earlier tries included
  int64_t total = 0;
  int64_t resumed = 0;  // of `bytes`: here before this began
  double seconds = 0.0;
  bool finished = false;
};

// Both are called by the thread that waits for the download. Null: not told.
struct HubReporter {
  std::function<void(const std::string& message)> say;
  std::function<void(const Transfer& transfer)> transfer;  // a few times a second, and when all is there
};

}  // namespace ftune
