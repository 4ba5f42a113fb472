#include "parallel/launch/tcp_store_server.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/monotonic_clock.h"
#include "base/quiet_thread.h"
#include "base/strings.h"
#include "parallel/launch/tcp_store_protocol.h"

namespace ftune {
namespace {

using tcp_store::AppendText;
using tcp_store::Request;

// Reads a request from the front of what has been received; `short_` where more must come first.
class RequestReader {
 public:
  explicit RequestReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T Integer() {
    T value = 0;
    if (bytes_.size() - at_ < sizeof(value)) {
      short_ = true;
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof(value));
    at_ += sizeof(value);
    return value;
  }

  std::string Text() {
    const uint64_t size = Integer<uint64_t>();
    if (size > tcp_store::kLongestText) wrong_ = true;
    if (short_ || wrong_ || bytes_.size() - at_ < size) {
      short_ = true;
      return "";
    }
    std::string text(bytes_.substr(at_, size));
    at_ += size;
    return text;
  }

  size_t used() const { return at_; }
  bool incomplete() const { return short_; }
  bool wrong() const { return wrong_; }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  bool short_ = false;
  bool wrong_ = false;
};

struct Client {
  Descriptor socket;
  std::string in;   // received, not yet understood
  std::string out;  // not yet sent
  std::vector<std::string> waits_for;
  std::string present;  // the rank that lives as long as the connection
  bool closing = false;
  bool known = false;  // it has shown the prefix
  absl::Duration since = MonotonicNow();
  bool stranger = false;  // that is why it is closed
};

}  // namespace

class TcpStoreServer::Loop {
 public:
  Loop(Descriptor listener, Descriptor wake, std::string prefix, std::shared_ptr<const RelayedPeers> peers)
      : listener_(std::move(listener)),
        wake_(std::move(wake)),
        prefix_(std::move(prefix)),
        peers_(std::move(peers)) {
    thread_ = QuietThread([this] { Serve(); });
  }

  ~Loop() {
    eventfd_write(wake_.get(), 1);
    thread_.join();
  }

  void AwaitClients(absl::Duration timeout) {
    std::unique_lock lock(mutex_);
    nobody_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [&] { return clients_.empty(); });
  }

  bool Has(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return values_.contains(key);
  }

  std::vector<std::string> TakeStrangers() {
    const std::lock_guard lock(mutex_);
    return std::exchange(new_strangers_, {});
  }

 private:
  void Serve() {
    while (true) {
      std::vector<pollfd> waits = {{.fd = wake_.get(), .events = POLLIN},
                                   {.fd = listener_.get(), .events = POLLIN}};
      for (const Client& client : clients_) {
        const short out = client.out.empty() ? 0 : POLLOUT;
        waits.push_back({.fd = client.socket.get(), .events = static_cast<short>(POLLIN | out)});
      }
      const int patience = static_cast<int>(absl::ToInt64Milliseconds(AnyUnknown() ? kLook : kLong));
      if (poll(waits.data(), waits.size(), patience) < 0) continue;
      if (waits[0].revents != 0) return;
      size_t i = 2;
      for (Client& client : clients_) {
        if (waits[i++].revents != 0) Attend(client);
      }
      RefuseSilent();
      for (const Client& client : clients_) {
        if (client.closing && !client.present.empty())
          Store(StrCat(prefix_, tcp_store::kTrouble), client.present);
      }
      const std::lock_guard lock(mutex_);
      for (const Client& client : clients_) {
        if (client.stranger) NoteStranger(client);
      }
      clients_.remove_if([](const Client& client) { return client.closing; });
      if (waits[1].revents != 0) Accept();
      if (clients_.empty()) nobody_.notify_all();
    }
  }

  void Accept() {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      clients_.push_back({.socket = std::move(socket)});
    } else if (errno == EMFILE || errno == ENFILE) {
      absl::SleepFor(kForDescriptors);  // of connections that end
    }
  }

  bool AnyUnknown() const {
    return std::any_of(clients_.begin(), clients_.end(), [](const Client& client) { return !client.known; });
  }

  // Who belongs to the run says so at once.
  void RefuseSilent() {
    for (Client& client : clients_) {
      if (!client.known && MonotonicNow() - client.since > kUnknownAtMost) Refuse(client);
    }
  }

  void NoteStranger(const Client& client) {
    const std::string address = peers_->PeerOf(client.socket.get());
    if (strangers_.size() < kMostStrangers && strangers_.insert(address).second) {
      new_strangers_.push_back(address);
    }
  }

  static void Refuse(Client& client) {
    client.stranger = true;
    client.closing = true;
  }

  void Attend(Client& client) {
    bool ended = false;
    char bytes[1 << 16];
    while (true) {
      const ssize_t count = recv(client.socket.get(), bytes, sizeof(bytes), 0);
      if (count > 0 && client.in.size() <= kMostUnread) {
        client.in.append(bytes, static_cast<size_t>(count));
      } else {
        ended = count >= 0 || (errno != EAGAIN && errno != EINTR);
        break;
      }
    }
    // Who has gone may have set something before.
    while (!client.closing && !client.in.empty() && client.waits_for.empty() && Answer(client)) {
    }
    if (ended) client.closing = true;
    if (!client.closing) Flush(client);
  }

  // False where the rest of a request is still to come.
  bool Answer(Client& client) {
    RequestReader reader(client.in);
    switch (static_cast<Request>(reader.Integer<uint8_t>())) {
      case Request::kValidate:
        if (reader.Integer<uint32_t>() != tcp_store::kMagic && !reader.incomplete()) Refuse(client);
        break;
      case Request::kSet: {
        const std::string key = reader.Text();
        std::string value = reader.Text();
        if (reader.incomplete() || !Allowed(key, client)) break;
        NotePresence(key, value, client);
        Store(key, std::move(value));
        break;
      }
      case Request::kGet: {
        const std::string key = reader.Text();
        if (reader.incomplete() || !Allowed(key, client)) break;
        const auto found = values_.find(key);
        // As torch's: who asks has waited for the key.
        client.closing = found == values_.end();
        if (!client.closing) AppendText(client.out, found->second);
        break;
      }
      case Request::kCheck: {
        const std::vector<std::string> keys = Keys(reader, client);
        if (reader.incomplete() || client.closing) break;
        client.out.push_back(static_cast<char>(AreThere(keys) ? tcp_store::kThere : tcp_store::kNotThere));
        break;
      }
      case Request::kWait: {
        std::vector<std::string> keys = Keys(reader, client);
        if (reader.incomplete() || client.closing) break;
        client.waits_for = std::move(keys);
        Wake(client);
        break;
      }
      default:
        Refuse(client);
    }
    if (reader.wrong()) Refuse(client);
    if (client.closing || reader.incomplete()) return false;
    client.in.erase(0, reader.used());
    return true;
  }

  std::vector<std::string> Keys(RequestReader& reader, Client& client) const {
    std::vector<std::string> keys(std::min<uint64_t>(reader.Integer<uint64_t>(), kMostKeys));
    for (std::string& key : keys) {
      key = reader.Text();
      if (reader.incomplete() || !Allowed(key, client)) break;
    }
    return keys;
  }

  void NotePresence(const std::string& key, const std::string& value, Client& client) const {
    const std::string present = StrCat(prefix_, tcp_store::kPresent);
    if (key.starts_with(present)) client.present = value.empty() ? "" : key.substr(present.size());
  }

  bool AreThere(const std::vector<std::string>& keys) const {
    return std::all_of(keys.begin(), keys.end(),
                       [&](const std::string& key) { return values_.contains(key); });
  }

  bool Allowed(const std::string& key, Client& client) const {
    if (!key.starts_with(prefix_)) Refuse(client);
    client.known = !client.closing;
    return !client.closing;
  }

  void Store(const std::string& key, std::string value) {
    {
      const std::lock_guard lock(mutex_);
      if (values_.contains(key) && key == StrCat(prefix_, tcp_store::kTrouble)) return;
      values_[key] = std::move(value);
    }
    for (Client& client : clients_) {
      if (client.waits_for.empty()) continue;
      Wake(client);
      Flush(client);
    }
  }

  // Answers where all it waits for is there.
  void Wake(Client& client) const {
    if (!AreThere(client.waits_for)) return;
    client.waits_for.clear();
    client.out.push_back(static_cast<char>(tcp_store::kStopWaiting));
  }

  static void Flush(Client& client) {
    while (!client.out.empty()) {
      const ssize_t sent = send(client.socket.get(), client.out.data(), client.out.size(), MSG_NOSIGNAL);
      if (sent < 0) {
        if (errno != EAGAIN && errno != EINTR) client.closing = true;
        return;
      }
      client.out.erase(0, static_cast<size_t>(sent));
    }
  }

  static constexpr uint64_t kMostKeys = 64;
  static constexpr absl::Duration kUnknownAtMost = absl::Seconds(10);
  static constexpr absl::Duration kLook = absl::Seconds(1), kLong = absl::Hours(1);
  static constexpr absl::Duration kForDescriptors = absl::Milliseconds(100);
  static constexpr size_t kMostStrangers = 64;  // that are told of
  static constexpr size_t kMostUnread = 4 * tcp_store::kLongestText;

  Descriptor listener_;
  Descriptor wake_;
  std::string prefix_;
  std::shared_ptr<const RelayedPeers> peers_;
  std::mutex mutex_;
  std::condition_variable nobody_;
  std::list<Client> clients_;                  // changed by the thread only, under the mutex
  std::map<std::string, std::string> values_;  // so, too
  std::set<std::string> strangers_;
  std::vector<std::string> new_strangers_;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<TcpStoreServer>> TcpStoreServer::Start(
    const std::string& host, int port, const std::string& prefix, std::shared_ptr<const RelayedPeers> peers) {
  FTUNE_ASSIGN_OR_RETURN(TcpListener listener, ListenTcp(host, port));
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return absl::ResourceExhaustedError("no file descriptor is left");
  const int actual = listener.port;
  auto loop = std::make_unique<Loop>(std::move(listener.socket), std::move(wake), prefix, std::move(peers));
  return std::unique_ptr<TcpStoreServer>(new TcpStoreServer(std::move(loop), actual));
}

TcpStoreServer::TcpStoreServer(std::unique_ptr<Loop> loop, int port) : loop_(std::move(loop)), port_(port) {}

TcpStoreServer::~TcpStoreServer() = default;

bool TcpStoreServer::Has(const std::string& key) const { return loop_->Has(key); }

std::vector<std::string> TcpStoreServer::TakeStrangers() { return loop_->TakeStrangers(); }

void TcpStoreServer::AwaitClients(absl::Duration timeout) { loop_->AwaitClients(timeout); }

}  // namespace ftune
