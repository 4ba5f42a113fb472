// How long to wait before a request is made again, and when to give up.
#pragma once

#include <chrono>
#include <optional>

#include "base/http/http_client.h"

namespace ftune {

class Backoff {
 public:
  // The wait before the next try: doubled each time, or what the server asks for (Retry-After). Nothing where
  // trying again is of no use, or has been of none so often.
  std::optional<std::chrono::milliseconds> Next(const HttpAnswer& answer);
  // Something came: the next failure is the first again.
  void Progress() { failures_ = 0; }

 private:
  int failures_ = 0;
};

// Failures that may pass: of the connection, and 408, 429 and 5xx.
bool MayPass(const HttpAnswer& answer);

}  // namespace ftune
