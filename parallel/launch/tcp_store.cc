#include "parallel/launch/tcp_store.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/launch/tcp.h"
#include "parallel/launch/tcp_store_protocol.h"

namespace ftune {

using tcp_store::AppendInteger;
using tcp_store::AppendText;
using tcp_store::Request;

namespace {

// For what a server answers without waiting for anyone.
constexpr absl::Duration kAnswerTime = absl::Seconds(10);
constexpr absl::Duration kLeastAnswerTime = absl::Milliseconds(200);

std::string NewRequest(Request request) { return std::string(1, static_cast<char>(request)); }

absl::StatusOr<std::string> ReceiveValue(int socket, absl::Time deadline) {
  uint64_t size = 0;
  FTUNE_RETURN_IF_ERROR(ReceiveTcp(socket, reinterpret_cast<char*>(&size), sizeof(size), deadline));
  if (size > tcp_store::kLongestText) return absl::DataLossError("a value is too long");
  std::string value(size, '\0');
  FTUNE_RETURN_IF_ERROR(ReceiveTcp(socket, value.data(), size, deadline));
  return value;
}

}  // namespace

TcpStore::TcpStore(std::string host, int port, std::string prefix)
    : host_(std::move(host)), port_(port), prefix_(std::move(prefix)) {}

absl::StatusOr<std::unique_ptr<TcpStore>> TcpStore::Connect(const std::string& host, int port,
                                                            const std::string& prefix,
                                                            absl::Duration timeout) {
  std::unique_ptr<TcpStore> store(new TcpStore(host, port, prefix));
  FTUNE_ASSIGN_OR_RETURN(Descriptor connection, store->TakeConnection(absl::Now() + timeout));
  store->own_address_ = AddressOf(connection.get());
  store->server_address_ = PeerAddressOf(connection.get());
  store->GiveBack(std::move(connection));
  FTUNE_RETURN_IF_ERROR(store->CheckServer());
  return store;
}

absl::StatusOr<Descriptor> TcpStore::TakeConnection(absl::Time deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Descriptor connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  FTUNE_ASSIGN_OR_RETURN(Descriptor connection, ConnectTcp(host_, port_, deadline));
  std::string hello = NewRequest(Request::kValidate);
  AppendInteger(hello, tcp_store::kMagic);
  FTUNE_RETURN_IF_ERROR(Send(connection, hello, absl::Now() + kAnswerTime));
  return connection;
}

void TcpStore::GiveBack(Descriptor connection) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
}

// What is set can be read back.
absl::Status TcpStore::CheckServer() {
  absl::Status status = Set("hello", "ftune");
  if (status.ok()) status = Get("hello", kAnswerTime).status();
  if (status.ok()) return status;
  return UserError(ExitCode::kRankFailed,
                   {.key = StrCat(host_, ":", port_),
                    .message = "what answers there is not the store of this run",
                    .hint = "another program uses the port: choose another MASTER_PORT"});
}

absl::Status TcpStore::Gone() const {
  return UserError(ExitCode::kRankFailed,
                   {.key = StrCat(host_, ":", port_),
                    .message = "the store of this run is gone: rank 0, or the launcher, has ended",
                    .hint = "its output has the cause"});
}

absl::Status TcpStore::Send(const Descriptor& connection, const std::string& request,
                            absl::Time deadline) const {
  const absl::Status status = SendTcp(connection.get(), request, deadline);
  return status.ok() ? status : Gone();
}

absl::Status TcpStore::Set(const std::string& key, const std::string& value, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  FTUNE_ASSIGN_OR_RETURN(Descriptor connection, TakeConnection(deadline));
  std::string request = NewRequest(Request::kSet);
  AppendText(request, prefix_ + key);
  AppendText(request, value);
  FTUNE_RETURN_IF_ERROR(Send(connection, request, deadline));
  GiveBack(std::move(connection));
  return absl::OkStatus();
}

absl::StatusOr<std::string> TcpStore::Get(const std::string& key, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  FTUNE_ASSIGN_OR_RETURN(Descriptor connection, TakeConnection(deadline));
  std::string wait = NewRequest(Request::kWait);
  AppendInteger(wait, uint64_t{1});
  AppendText(wait, prefix_ + key);
  FTUNE_RETURN_IF_ERROR(Send(connection, wait, deadline));
  uint8_t answer = tcp_store::kStopWaiting;
  const absl::Status waited = ReceiveTcp(connection.get(), reinterpret_cast<char*>(&answer), 1, deadline);
  if (absl::IsDeadlineExceeded(waited)) {
    // The connection is not used again: the answer may still come.
    return UserError(ExitCode::kTimeout,
                     {.key = StrCat(host_, ":", port_),
                      .message = StrCat("no rank has set ", key, " within ", absl::FormatDuration(timeout)),
                      .hint = "look at the output of the other ranks"});
  }
  if (!waited.ok() || answer != tcp_store::kStopWaiting) return Gone();
  std::string get = NewRequest(Request::kGet);
  AppendText(get, prefix_ + key);
  const absl::Time soon = absl::Now() + std::clamp(timeout, kLeastAnswerTime, kAnswerTime);
  FTUNE_RETURN_IF_ERROR(Send(connection, get, soon));
  absl::StatusOr<std::string> value = ReceiveValue(connection.get(), soon);
  if (!value.ok()) return Gone();
  GiveBack(std::move(connection));
  return value;
}

}  // namespace ftune
