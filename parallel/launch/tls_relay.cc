#include "parallel/launch/tls_relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <iterator>
#include <list>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/quiet_thread.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr absl::Duration kConnectTime = absl::Seconds(10);
constexpr absl::Duration kForDescriptors = absl::Milliseconds(100);
constexpr size_t kMostStrangers = 1000;

// False where who has come goes without a word: a host that looked for its own address on the way, say.
bool Speaks(int socket) {
  pollfd wait = {.fd = socket, .events = POLLIN};
  while (poll(&wait, 1, -1) < 0) {
  }
  char first = 0;
  return recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

// One connection that has come, and the one that it is carried to.
struct Carried {
  Descriptor from, to;
  std::thread thread;
  std::atomic<bool> ended = false;
};

}  // namespace

class TlsRelay::Loop {
 public:
  // Carries between two sockets until one of them ends: the one that has come, and the other.
  using Carry = std::function<std::string(int came, int to)>;

  Loop(TcpListener listener, Descriptor wake, TlsTarget target, std::shared_ptr<RelayedPeers> peers,
       Carry carry)
      : listener_(std::move(listener)),
        wake_(std::move(wake)),
        target_(std::move(target)),
        peers_(std::move(peers)),
        carry_(std::move(carry)) {
    thread_ = QuietThread([this] { Run(); });
  }

  ~Loop() {
    eventfd_write(wake_.get(), 1);
    thread_.join();
    for (Carried& carried : carried_) {
      {
        const std::lock_guard lock(mutex_);
        for (const Descriptor* end : {&carried.from, &carried.to}) shutdown(end->get(), SHUT_RDWR);
      }
      carried.thread.join();
    }
  }

  int port() const { return listener_.port; }
  std::string why_failed() const {
    const std::lock_guard lock(mutex_);
    return why_failed_;
  }
  std::vector<std::string> TakeStrangers() {
    const std::lock_guard lock(mutex_);
    return std::exchange(new_strangers_, {});
  }

 private:
  void Run() {
    while (true) {
      pollfd waits[] = {{.fd = wake_.get(), .events = POLLIN},
                        {.fd = listener_.socket.get(), .events = POLLIN}};
      if (poll(waits, std::size(waits), -1) < 0) continue;
      if (waits[0].revents != 0) return;
      Descriptor came(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      carried_.remove_if([](Carried& carried) {
        if (!carried.ended) return false;
        carried.thread.join();
        return true;
      });
      if (!came) {
        // Descriptors of connections that end are wanted.
        if (errno == EMFILE || errno == ENFILE) absl::SleepFor(kForDescriptors);
        continue;
      }
      Carried& carried = carried_.emplace_back();
      carried.from = std::move(came);
      carried.thread = QuietThread([this, &carried] {
        Connect(carried);
        carried.ended = true;
      });
    }
  }

  void Connect(Carried& carried) {
    if (!Speaks(carried.from.get())) {
      const std::lock_guard lock(mutex_);
      carried.from = {};
      return;
    }
    absl::StatusOr<Descriptor> to = ConnectTcp(target_.address, target_.port, absl::Now() + kConnectTime,
                                               /*may_start_later=*/false);
    std::string why = to.ok() ? "" : std::string(to.status().message());
    if (to.ok()) {
      peers_->Add(PortOf(to->get()), PeerAddressOf(carried.from.get()));
      {
        const std::lock_guard lock(mutex_);
        carried.to = *std::move(to);
      }
      why = carry_(carried.from.get(), carried.to.get());
    }
    // The ends that are left wait for no more.
    const std::lock_guard lock(mutex_);
    if (!why.empty()) {
      why_failed_ = why;
      const std::string address = PeerAddressOf(carried.from.get());
      const bool is_new = strangers_.size() < kMostStrangers && strangers_.insert(address).second;
      if (is_new) new_strangers_.push_back(address);
    }
    carried.from = {};
    carried.to = {};
  }

  TcpListener listener_;
  Descriptor wake_;
  TlsTarget target_;
  std::shared_ptr<RelayedPeers> peers_;
  Carry carry_;
  mutable std::mutex mutex_;
  std::string why_failed_;
  std::set<std::string> strangers_;
  std::vector<std::string> new_strangers_;
  std::list<Carried> carried_;  // changed by the thread only; their descriptors under the mutex
  std::thread thread_;
};

TlsRelay::TlsRelay(std::unique_ptr<Loop> loop, std::string fingerprint)
    : loop_(std::move(loop)), fingerprint_(std::move(fingerprint)) {}

TlsRelay::~TlsRelay() = default;

int TlsRelay::port() const { return loop_->port(); }
std::string TlsRelay::why_failed() const { return loop_->why_failed(); }
std::vector<std::string> TlsRelay::TakeStrangers() { return loop_->TakeStrangers(); }

absl::StatusOr<std::unique_ptr<TlsRelay>> TlsRelay::Serve(Network& network, TcpListener listener,
                                                          const TlsTarget& target,
                                                          std::shared_ptr<RelayedPeers> peers) {
  const std::optional<TlsIdentity> identity = network.NewTlsIdentity();
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!identity || !wake) {
    return UserError(ExitCode::kRankFailed,
                     {.key = "launch.tls", .message = "a certificate cannot be made on this host"});
  }
  auto loop = std::make_unique<Loop>(std::move(listener), std::move(wake), target, std::move(peers),
                                     [&network, identity = *identity](int came, int to) {
                                       return network.RelayAsServer(identity, came, to);
                                     });
  return std::unique_ptr<TlsRelay>(new TlsRelay(std::move(loop), identity->fingerprint));
}

absl::StatusOr<std::unique_ptr<TlsRelay>> TlsRelay::Call(Network& network, const TlsTarget& target,
                                                         const std::string& fingerprint) {
  FTUNE_ASSIGN_OR_RETURN(TcpListener listener, ListenTcp(kLoopback, 0));
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return absl::ResourceExhaustedError("no file descriptor is left");
  auto loop = std::make_unique<Loop>(
      std::move(listener), std::move(wake), target, std::make_shared<RelayedPeers>(),
      [&network, fingerprint](int came, int to) { return network.RelayAsClient(fingerprint, to, came); });
  return std::unique_ptr<TlsRelay>(new TlsRelay(std::move(loop), ""));
}

}  // namespace ftune
