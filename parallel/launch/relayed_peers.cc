#include "parallel/launch/relayed_peers.h"

#include <utility>

#include "parallel/launch/tcp.h"

namespace ftune {

void RelayedPeers::Add(int port, std::string address) {
  const std::lock_guard lock(mutex_);
  addresses_[port] = std::move(address);
}

std::string RelayedPeers::PeerOf(int socket) const {
  std::string address = PeerAddressOf(socket);
  const std::lock_guard lock(mutex_);
  const auto behind = addresses_.find(PeerPortOf(socket));
  return NamesLoopback(address) && behind != addresses_.end() ? behind->second : address;
}

}  // namespace ftune
