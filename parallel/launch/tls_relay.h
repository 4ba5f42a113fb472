// Encrypted connections between hosts for what speaks plain TCP: one relay listens where the server is,
// others where its clients are, and each of those carries connections on this host to the first.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/http/network.h"
#include "parallel/launch/relayed_peers.h"
#include "parallel/launch/tcp.h"

namespace ftune {

// Where a relay carries connections to.
struct TlsTarget {
  std::string address;
  int port = 0;
};

class TlsRelay {
 public:
  // Takes encrypted connections at `listener` and carries them to `target`, on this host. With a certificate
  // that is made for it: its clients are told the fingerprint by another way. `network` outlives the relay;
  // `peers` is told who is behind each connection to the target.
  static absl::StatusOr<std::unique_ptr<TlsRelay>> Serve(Network& network, TcpListener listener,
                                                         const TlsTarget& target,
                                                         std::shared_ptr<RelayedPeers> peers);
  // Takes plain connections on this host's loopback and carries them to the relay at `target`, if that has
  // the certificate of `fingerprint`.
  static absl::StatusOr<std::unique_ptr<TlsRelay>> Call(Network& network, const TlsTarget& target,
                                                        const std::string& fingerprint);
  // Ends all connections.
  ~TlsRelay();
  TlsRelay(const TlsRelay&) = delete;
  TlsRelay& operator=(const TlsRelay&) = delete;

  int port() const;
  // Of the certificate, where this relay serves; else empty.
  const std::string& fingerprint() const { return fingerprint_; }
  // Why a connection could not be carried, the last time that it was so; else empty.
  std::string why_failed() const;
  // The addresses of those who could not be carried since, each once.
  std::vector<std::string> TakeStrangers();

 private:
  class Loop;
  TlsRelay(std::unique_ptr<Loop> loop, std::string fingerprint);

  std::unique_ptr<Loop> loop_;
  std::string fingerprint_;
};

}  // namespace ftune
