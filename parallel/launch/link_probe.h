// How fast TCP is between two hosts: one serves, the other measures.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/descriptor.h"

namespace ftune {

// Answers those who know the token, one after another, by a thread of its own.
class LinkProbeServer {
 public:
  static absl::StatusOr<std::unique_ptr<LinkProbeServer>> Start(const std::string& token);
  ~LinkProbeServer();

  int port() const { return port_; }

 private:
  class Loop;
  LinkProbeServer(std::unique_ptr<Loop> loop, int port);

  std::unique_ptr<Loop> loop_;
  int port_;
};

struct LinkSpeed {
  absl::Duration round_trip;     // the median of 50 exchanges of a byte
  double sent_per_second = 0.0;  // bytes from here to there, of 64 MB at most
  double received_per_second = 0.0;
};

// `addresses` of the server's host: the first that answers is taken. Takes some ten seconds at most.
absl::StatusOr<LinkSpeed> MeasureLink(const std::vector<std::string>& addresses, int port,
                                      const std::string& token);

}  // namespace ftune
