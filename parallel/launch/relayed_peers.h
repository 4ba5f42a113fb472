// Who is at the other end of connections that have come by a relay on this host.
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace ftune {

// Thread-safe. Knows at most as many as there are ports: what a port was before is forgotten.
class RelayedPeers {
 public:
  // The relay has made a connection from `port` of this host, for whoever is at `address`.
  void Add(int port, std::string address);
  // The address of the other end of a connection; where that is the relay, of whoever is behind it.
  std::string PeerOf(int socket) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, std::string> addresses_;  // by the relay's port
};

}  // namespace ftune
