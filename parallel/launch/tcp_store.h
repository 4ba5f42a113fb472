// A key-value store over TCP: torchrun's, or that of TcpStoreServer.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "parallel/launch/key_value_store.h"
#include "parallel/launch/tcp_store_protocol.h"

namespace ftune {

// Thread-safe: each call that is under way has a connection of its own.
class TcpStore final : public KeyValueStore {
 public:
  // `prefix` is put before all keys. Tries until `timeout`. An error where something else listens there.
  static absl::StatusOr<std::unique_ptr<TcpStore>> Connect(const std::string& host, int port,
                                                           const std::string& prefix, absl::Duration timeout);

  using KeyValueStore::Set;
  absl::Status Set(const std::string& key, const std::string& value, absl::Duration timeout) override;
  // Ends early with what Trouble tells, if that comes first.
  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override;
  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  absl::Duration timeout) override;
  // That a rank died only where the server is ftune's.
  absl::Status Trouble(absl::Duration timeout) override;
  void TellTrouble(const absl::Status& trouble) override;

  // To the others, this rank has died when its connection ends from now on. Leave: not any more.
  absl::Status Enter(int rank);
  void Leave();

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
  absl::Status Late(const std::string& what, absl::Duration timeout) const;
  // A connection that the server closed: it has ended, and no other is tried.
  void NoteClosed(const absl::Status& status) const;
  absl::StatusOr<uint8_t> ReceiveAnswer(const Descriptor& connection, absl::Time deadline) const;
  absl::Status SetOn(const Descriptor& connection, const std::string& key, const std::string& value,
                     absl::Time deadline) const;
  // The answer of one byte to a request about a key.
  absl::StatusOr<uint8_t> Ask(const Descriptor& connection, tcp_store::Request request,
                              const std::string& key, absl::Time deadline) const;
  absl::StatusOr<std::vector<std::string>> GetOn(const Descriptor& connection,
                                                 const std::vector<std::string>& keys,
                                                 absl::Duration timeout) const;

  std::string host_;
  int port_;
  std::string prefix_;
  std::string own_address_, server_address_;
  int rank_ = 0;
  Descriptor presence_;
  mutable std::atomic<bool> gone_ = false;
  std::mutex mutex_;
  std::vector<Descriptor> idle_;
};

}  // namespace ftune
