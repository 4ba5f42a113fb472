// A key-value store over TCP: torchrun's, or that of TcpStoreServer.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "parallel/comm/descriptor.h"
#include "parallel/launch/key_value_store.h"

namespace ftune {

// Thread-safe; one call waits for another.
class TcpStore final : public KeyValueStore {
 public:
  // `prefix` is put before all keys. Tries until `timeout`. An error where something else listens there.
  static absl::StatusOr<std::unique_ptr<TcpStore>> Connect(const std::string& host, int port,
                                                           const std::string& prefix, absl::Duration timeout);

  absl::Status Set(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override;

 private:
  TcpStore(std::string host, int port, std::string prefix);
  absl::Status Reconnect(absl::Time deadline);
  absl::Status CheckServer();
  absl::Status Send(const std::string& request, absl::Time deadline);
  absl::StatusOr<std::string> ReceiveValue(absl::Time deadline);
  absl::Status Gone() const;

  std::string host_;
  int port_;
  std::string prefix_;
  std::mutex mutex_;
  Descriptor socket_;
};

}  // namespace ftune
