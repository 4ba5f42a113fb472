// Serves the store of a run, in a thread of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "parallel/launch/relayed_peers.h"
#include "parallel/launch/tcp.h"

namespace ftune {

class TcpStoreServer {
 public:
  // On `host` and `port` (0: any free one). A connection that asks for a key without `prefix`, or for none
  // within ten seconds, is closed. `peers` knows who is behind connections that have come by a relay.
  static absl::StatusOr<std::unique_ptr<TcpStoreServer>> Start(
      const std::string& host, int port, const std::string& prefix,
      std::shared_ptr<const RelayedPeers> peers = std::make_shared<RelayedPeers>());
  ~TcpStoreServer();
  TcpStoreServer(const TcpStoreServer&) = delete;
  TcpStoreServer& operator=(const TcpStoreServer&) = delete;

  int port() const { return port_; }
  // Whether some client has set it; with its prefix.
  bool Has(const std::string& key) const;

  // The addresses that have been refused since this was called last: what came from there does not know the
  // prefix, or speaks otherwise. Each is given once.
  std::vector<std::string> TakeStrangers();

  // Until nobody is connected any more, or `timeout` has passed.
  void AwaitClients(absl::Duration timeout);

 private:
  class Loop;
  TcpStoreServer(std::unique_ptr<Loop> loop, int port);

  std::unique_ptr<Loop> loop_;
  int port_;
};

}  // namespace ftune
