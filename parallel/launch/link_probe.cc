#include "parallel/launch/link_probe.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/monotonic_clock.h"
#include "base/quiet_thread.h"
#include "base/strings.h"
#include "parallel/launch/tcp.h"

namespace ftune {
namespace {

// After its token a client sends orders, a byte each.
enum class Order : char {
  kEcho = 'e',  // the byte comes back, once all before it has been done
  kTake = 't',  // a piece follows
  kGive = 'g',  // a piece comes back
};

constexpr size_t kPiece = 1'000'000;
constexpr int kPieces = 64;
constexpr int kOnTheWay = 4;  // pieces that are asked for and have not come
constexpr int kEchoes = 50;
constexpr absl::Duration kConnectTime = absl::Seconds(5);
constexpr absl::Duration kEchoTime = absl::Seconds(3);   // for all of them
constexpr absl::Duration kPieceTime = absl::Seconds(3);  // for pieces to be begun
constexpr absl::Duration kIdle = absl::Seconds(30);      // without anything coming or going

std::string Byte(Order order) { return std::string(1, static_cast<char>(order)); }

absl::Status Receive(int socket, std::string& bytes) {
  return ReceiveTcp(socket, bytes.data(), bytes.size(), absl::Now() + kIdle);
}
absl::Status Send(int socket, std::string_view bytes) { return SendTcp(socket, bytes, absl::Now() + kIdle); }

absl::Status Echo(int socket) {
  std::string byte = Byte(Order::kEcho);
  FTUNE_RETURN_IF_ERROR(Send(socket, byte));
  return Receive(socket, byte);
}

absl::StatusOr<absl::Duration> MeasureRoundTrip(int socket) {
  FTUNE_RETURN_IF_ERROR(Echo(socket));  // the token has been read
  std::vector<absl::Duration> times;
  const absl::Duration end = MonotonicNow() + kEchoTime;
  do {
    const absl::Duration begin = MonotonicNow();
    FTUNE_RETURN_IF_ERROR(Echo(socket));
    times.push_back(MonotonicNow() - begin);
  } while (times.size() < kEchoes && MonotonicNow() < end);
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

double PerSecond(int pieces, absl::Duration begin) {
  return static_cast<double>(kPiece) * pieces / absl::ToDoubleSeconds(MonotonicNow() - begin);
}

absl::StatusOr<double> MeasureSending(int socket) {
  const std::string order = Byte(Order::kTake) + std::string(kPiece, '\0');
  const absl::Duration begin = MonotonicNow();
  int pieces = 0;
  while (pieces < kPieces && MonotonicNow() < begin + kPieceTime) {
    FTUNE_RETURN_IF_ERROR(Send(socket, order));
    ++pieces;
  }
  FTUNE_RETURN_IF_ERROR(Echo(socket));  // all has been read
  return PerSecond(pieces, begin);
}

absl::StatusOr<double> MeasureReceiving(int socket) {
  std::string piece(kPiece, '\0');
  const absl::Duration begin = MonotonicNow();
  int asked = 0, pieces = 0;
  while (true) {
    while (asked < std::min(kPieces, pieces + kOnTheWay) && MonotonicNow() < begin + kPieceTime) {
      FTUNE_RETURN_IF_ERROR(Send(socket, Byte(Order::kGive)));
      ++asked;
    }
    if (pieces == asked) return PerSecond(pieces, begin);
    FTUNE_RETURN_IF_ERROR(Receive(socket, piece));
    ++pieces;
  }
}

absl::StatusOr<Descriptor> ConnectToOne(const std::vector<std::string>& addresses, int port) {
  absl::Status why = absl::UnavailableError("it has no address");
  for (const std::string& address : addresses) {
    absl::StatusOr<Descriptor> socket =
        ConnectTcp(address, port, absl::Now() + kConnectTime, /*may_start_later=*/false);
    if (socket.ok()) return socket;
    why =
        UserError(ExitCode::kRankFailed, {.message = StrCat("nobody answers at ", address, ", port ", port)});
  }
  return why;
}

}  // namespace

class LinkProbeServer::Loop {
 public:
  Loop(Descriptor listener, Descriptor wake, std::string token)
      : listener_(std::move(listener)), wake_(std::move(wake)), token_(std::move(token)) {
    thread_ = QuietThread([this] { Serve(); });
  }
  ~Loop() {
    eventfd_write(wake_.get(), 1);
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
      if (client_) shutdown(client_.get(), SHUT_RDWR);
    }
    thread_.join();
  }

 private:
  void Serve() {
    while (true) {
      pollfd waits[] = {{.fd = wake_.get(), .events = POLLIN}, {.fd = listener_.get(), .events = POLLIN}};
      if (poll(waits, std::size(waits), -1) < 0) continue;
      if (waits[0].revents != 0) return;
      Descriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client) continue;
      Hold(std::move(client));
      Attend(client_.get()).IgnoreError();  // who has gone, or knows nothing, is not answered
      Hold(Descriptor());
    }
  }

  void Hold(Descriptor client) {
    const std::lock_guard lock(mutex_);
    client_ = std::move(client);
    if (done_ && client_) shutdown(client_.get(), SHUT_RDWR);
  }

  absl::Status Attend(int socket) {
    std::string token(token_.size(), '\0');
    FTUNE_RETURN_IF_ERROR(Receive(socket, token));
    if (token != token_) return absl::PermissionDeniedError("another token");
    std::string order(1, '\0');
    std::string piece(kPiece, '\0');
    while (true) {
      FTUNE_RETURN_IF_ERROR(Receive(socket, order));
      switch (static_cast<Order>(order[0])) {
        case Order::kEcho:
          FTUNE_RETURN_IF_ERROR(Send(socket, order));
          break;
        case Order::kTake:
          FTUNE_RETURN_IF_ERROR(Receive(socket, piece));
          break;
        case Order::kGive:
          FTUNE_RETURN_IF_ERROR(Send(socket, piece));
          break;
        default:
          return absl::InvalidArgumentError("no such order");
      }
    }
  }

  const Descriptor listener_, wake_;
  const std::string token_;
  std::mutex mutex_;
  Descriptor client_;  // changed by the thread only, under the mutex
  bool done_ = false;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<LinkProbeServer>> LinkProbeServer::Start(const std::string& token) {
  FTUNE_ASSIGN_OR_RETURN(TcpListener listener, ListenTcp(kEverywhere, 0));
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return absl::ResourceExhaustedError("no file descriptor is left");
  const int port = listener.port;
  auto loop = std::make_unique<Loop>(std::move(listener.socket), std::move(wake), token);
  return std::unique_ptr<LinkProbeServer>(new LinkProbeServer(std::move(loop), port));
}

LinkProbeServer::LinkProbeServer(std::unique_ptr<Loop> loop, int port)
    : loop_(std::move(loop)), port_(port) {}

LinkProbeServer::~LinkProbeServer() = default;

absl::StatusOr<LinkSpeed> MeasureLink(const std::vector<std::string>& addresses, int port,
                                      const std::string& token) {
  FTUNE_ASSIGN_OR_RETURN(const Descriptor socket, ConnectToOne(addresses, port));
  FTUNE_RETURN_IF_ERROR(Send(socket.get(), token));
  LinkSpeed speed;
  FTUNE_ASSIGN_OR_RETURN(speed.round_trip, MeasureRoundTrip(socket.get()));
  FTUNE_ASSIGN_OR_RETURN(speed.sent_per_second, MeasureSending(socket.get()));
  FTUNE_ASSIGN_OR_RETURN(speed.received_per_second, MeasureReceiving(socket.get()));
  return speed;
}

}  // namespace ftune
