#include "parallel/launch/tcp_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/mismatch.h"
#include "parallel/comm/status_text.h"
#include "parallel/launch/tcp.h"

namespace ftune {

using tcp_store::AppendInteger;
using tcp_store::AppendText;
using tcp_store::Request;

namespace {

// For what a server answers without waiting for anyone.
constexpr absl::Duration kAnswerTime = absl::Seconds(10);
constexpr absl::Duration kLeastAnswerTime = absl::Milliseconds(200);
// How often who waits asks whether it waits in vain.
constexpr absl::Duration kLookForTrouble = absl::Milliseconds(500);

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
    if (gone_) return Gone();
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Descriptor connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  const bool met = !server_address_.empty();
  absl::StatusOr<Descriptor> connected = ConnectTcp(host_, port_, deadline, !met);
  NoteClosed(connected.status());
  if (absl::IsUnavailable(connected.status())) return Gone();
  FTUNE_ASSIGN_OR_RETURN(Descriptor connection, std::move(connected));
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

absl::Status TcpStore::Late(const std::string& what, absl::Duration timeout) const {
  return UserError(ExitCode::kTimeout, {.key = StrCat(host_, ":", port_),
                                        .message = StrCat(what, " within ", absl::FormatDuration(timeout)),
                                        .hint = "look at the output of the other ranks"});
}

absl::Status TcpStore::Send(const Descriptor& connection, const std::string& request,
                            absl::Time deadline) const {
  const absl::Status status = SendTcp(connection.get(), request, deadline);
  NoteClosed(status);
  return status.ok() ? status : Gone();
}

void TcpStore::NoteClosed(const absl::Status& status) const {
  if (absl::IsUnavailable(status)) gone_ = true;
}

absl::Status TcpStore::SetOn(const Descriptor& connection, const std::string& key, const std::string& value,
                             absl::Time deadline) const {
  std::string request = NewRequest(Request::kSet);
  AppendText(request, prefix_ + key);
  AppendText(request, value);
  return Send(connection, request, deadline);
}

absl::Status TcpStore::Set(const std::string& key, const std::string& value, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  FTUNE_ASSIGN_OR_RETURN(Descriptor connection, TakeConnection(deadline));
  FTUNE_RETURN_IF_ERROR(SetOn(connection, key, value, deadline));
  GiveBack(std::move(connection));
  return absl::OkStatus();
}

absl::StatusOr<uint8_t> TcpStore::Ask(const Descriptor& connection, Request request, const std::string& key,
                                      absl::Time deadline) const {
  std::string question = NewRequest(request);
  AppendInteger(question, uint64_t{1});
  AppendText(question, prefix_ + key);
  FTUNE_RETURN_IF_ERROR(Send(connection, question, deadline));
  return ReceiveAnswer(connection, deadline);
}

absl::StatusOr<uint8_t> TcpStore::ReceiveAnswer(const Descriptor& connection, absl::Time deadline) const {
  uint8_t answer = 0;
  const absl::Status status = ReceiveTcp(connection.get(), reinterpret_cast<char*>(&answer), 1, deadline);
  NoteClosed(status);
  if (!status.ok()) return status;
  return answer;
}

absl::StatusOr<std::vector<std::string>> TcpStore::GetOn(const Descriptor& connection,
                                                         const std::vector<std::string>& keys,
                                                         absl::Duration timeout) const {
  std::string questions;
  for (const std::string& key : keys) {
    questions += NewRequest(Request::kGet);
    AppendText(questions, prefix_ + key);
  }
  const absl::Duration patience = std::clamp(timeout, kLeastAnswerTime, kAnswerTime);
  const absl::Time soon = absl::Now() + patience;
  FTUNE_RETURN_IF_ERROR(Send(connection, questions, soon));
  std::vector<std::string> values;
  for (size_t i = 0; i < keys.size(); ++i) {
    absl::StatusOr<std::string> value = ReceiveValue(connection.get(), soon);
    if (absl::IsDeadlineExceeded(value.status())) return Late("the store has not answered", patience);
    if (!value.ok()) return Gone();
    values.push_back(*std::move(value));
  }
  return values;
}

absl::StatusOr<std::vector<std::string>> TcpStore::GetAll(const std::vector<std::string>& keys,
                                                          absl::Duration timeout) {
  FTUNE_ASSIGN_OR_RETURN(Descriptor connection, TakeConnection(absl::Now() + timeout));
  FTUNE_ASSIGN_OR_RETURN(std::vector<std::string> values, GetOn(connection, keys, timeout));
  GiveBack(std::move(connection));
  return values;
}

absl::StatusOr<std::string> TcpStore::Get(const std::string& key, absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  FTUNE_ASSIGN_OR_RETURN(Descriptor connection, TakeConnection(deadline));
  absl::StatusOr<uint8_t> answer =
      Ask(connection, Request::kWait, key, std::min(deadline, absl::Now() + kLookForTrouble));
  while (absl::IsDeadlineExceeded(answer.status()) && absl::Now() < deadline) {
    FTUNE_RETURN_IF_ERROR(Trouble(kLookForTrouble));
    answer = ReceiveAnswer(connection, std::min(deadline, absl::Now() + kLookForTrouble));
  }
  if (absl::IsDeadlineExceeded(answer.status())) {
    // The connection is not used again: the answer may still come.
    return Late(StrCat("no rank has set ", key), timeout);
  }
  if (!answer.ok() || *answer != tcp_store::kStopWaiting) return Gone();
  FTUNE_ASSIGN_OR_RETURN(std::vector<std::string> values, GetOn(connection, {key}, timeout));
  GiveBack(std::move(connection));
  return std::move(values.front());
}

absl::Status TcpStore::Trouble(absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  const std::string key(tcp_store::kTrouble);
  absl::StatusOr<Descriptor> connection = TakeConnection(deadline);
  if (!connection.ok()) return absl::OkStatus();
  const absl::StatusOr<uint8_t> answer = Ask(*connection, Request::kCheck, key, deadline);
  if (!answer.ok()) return absl::OkStatus();
  std::vector<std::string> keys;
  if (*answer == tcp_store::kThere) keys.push_back(key);
  const absl::StatusOr<std::vector<std::string>> trouble = GetOn(*connection, keys, timeout);
  if (!trouble.ok()) return absl::OkStatus();
  GiveBack(*std::move(connection));
  if (trouble->empty()) return absl::OkStatus();
  int rank = 0;
  if (absl::SimpleAtoi(trouble->front(), &rank)) return LostRankError(rank, "its process died");
  return HeardStatus(trouble->front());
}

absl::Status TcpStore::Enter(int rank) {
  rank_ = rank;
  FTUNE_ASSIGN_OR_RETURN(presence_, TakeConnection(absl::Now() + kAnswerTime));
  return SetOn(presence_, StrCat(tcp_store::kPresent, rank), "here", absl::Now() + kAnswerTime);
}

void TcpStore::Leave() {
  if (!presence_) return;
  SetOn(presence_, StrCat(tcp_store::kPresent, rank_), "", absl::Now() + kLookForTrouble).IgnoreError();
  presence_ = {};
}

void TcpStore::TellTrouble(const absl::Status& trouble) {
  Set(std::string(tcp_store::kTrouble), EncodeStatus(trouble), kLookForTrouble).IgnoreError();
}

}  // namespace ftune
