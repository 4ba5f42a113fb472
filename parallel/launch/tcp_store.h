// A key-value store over TCP: torchrun's, or that of TcpStoreServer.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/comm/descriptor.h"
#include "parallel/launch/key_value_store.h"

namespace ftune {

// Thread-safe: each call that is under way has a connection of its own.
class TcpStore final : public KeyValueStore {
 public:
  // `prefix` is put before all keys. Tries until `timeout`. An error where something else listens there.
  static absl::StatusOr<std::unique_ptr<TcpStore>> Connect(const std::string& host, int port,
                                                           const std::string& prefix, absl::Duration timeout);

  using KeyValueStore::Set;
  absl::Status Set(const std::string& key, const std::string& value, absl::Duration timeout) override;
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override;

  // This host's address on the way to the store, and that of the store's host.
  std::string OwnAddress() const { return own_address_; }
  std::string ServerAddress() const { return server_address_; }

 private:
  TcpStore(std::string host, int port, std::string prefix);
  // An idle connection, or a new one.
  absl::StatusOr<Descriptor> TakeConnection(absl::Time deadline);
  void GiveBack(Descriptor connection);
  absl::Status CheckServer();
  absl::Status Send(const Descriptor& connection, const std::string& request, absl::Time deadline) const;
  absl::Status Gone() const;

  std::string host_;
  int port_;
  std::string prefix_;
  std::string own_address_, server_address_;
  std::mutex mutex_;
  std::vector<Descriptor> idle_;
};

}  // namespace ftune
