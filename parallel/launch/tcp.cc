#include "parallel/launch/tcp.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr absl::Duration kRetry = absl::Milliseconds(50);

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

absl::StatusOr<Addresses> Resolve(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), StrCat(port).c_str(), &hints, &found);
  if (error == 0) return Addresses(found, &freeaddrinfo);
  return UsageError({.file = "environment",
                     .key = "MASTER_ADDR",
                     .message = StrCat("'", host, "' is no host that is known here: ", gai_strerror(error)),
                     .hint = "give the address of the host of rank 0"});
}

Descriptor NewSocket(int family) {
  return Descriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Until the socket is ready, or the deadline.
bool WaitFor(int socket, short events, absl::Time deadline) {
  while (true) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - absl::Now());
    pollfd wait = {.fd = socket, .events = events};
    const int ready = poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the call that follows says what is wrong
    if (left <= 0) return false;
  }
}

absl::Status Closed() { return absl::UnavailableError("the other end has closed the connection"); }
absl::Status Late() { return absl::DeadlineExceededError("nothing came in time"); }

// One try; an empty descriptor, and errno, where nobody answers.
Descriptor TryConnect(const addrinfo& address, absl::Time deadline) {
  Descriptor socket = NewSocket(address.ai_family);
  if (!socket) return {};
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return {};
    if (!WaitFor(socket.get(), POLLOUT, deadline)) {
      errno = ETIMEDOUT;
      return {};
    }
    int error = 0;
    socklen_t size = sizeof(error);
    if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
      socket = {};
      errno = error;
      return {};
    }
  }
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  return socket;
}

struct Bound {
  Descriptor socket;
  int error = 0;  // errno where there is no socket
};

Bound TryListen(const sockaddr* address, socklen_t size, int family) {
  Descriptor socket = NewSocket(family);
  if (!socket) return {{}, errno};
  const int on = 1;
  setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(socket.get(), address, size) != 0 || listen(socket.get(), SOMAXCONN) != 0) return {{}, errno};
  return {std::move(socket), 0};
}

Bound TryListenEverywhere(int port) {
  sockaddr_in6 any = {};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(static_cast<uint16_t>(port));
  Bound bound = TryListen(reinterpret_cast<sockaddr*>(&any), sizeof(any), AF_INET6);
  if (bound.socket || bound.error == EADDRINUSE) return bound;
  sockaddr_in any4 = {};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(static_cast<uint16_t>(port));
  return TryListen(reinterpret_cast<sockaddr*>(&any4), sizeof(any4), AF_INET);
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET6) {
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr) != 0;
  }
  return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

std::string NumericAddress(int socket, int (*get)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  char text[NI_MAXHOST] = "";
  if (get(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  getnameinfo(reinterpret_cast<sockaddr*>(&address), size, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  // Of a socket for both families, by whose name nobody knows the host.
  constexpr std::string_view kMapped = "::ffff:";
  const std::string_view numeric = text;
  const bool mapped = numeric.starts_with(kMapped) && numeric.find('.') != std::string_view::npos;
  return std::string(mapped ? numeric.substr(kMapped.size()) : numeric);
}

int NumericPort(int socket, int (*get)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (get(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

absl::StatusOr<Descriptor> ConnectTcp(const std::string& host, int port, absl::Time deadline,
                                      bool may_start_later) {
  FTUNE_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host, port));
  const absl::Time start = absl::Now();
  while (true) {
    bool refused = true;
    for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
      Descriptor socket = TryConnect(*address, deadline);
      if (socket) return socket;
      refused = refused && errno == ECONNREFUSED;
    }
    if (refused && !may_start_later) return absl::UnavailableError("nobody listens there any more");
    if (absl::Now() + kRetry >= deadline) break;
    absl::SleepFor(kRetry);
  }
  return UserError(ExitCode::kTimeout,
                   {.key = StrCat(host, ":", port),
                    .message = StrCat("nobody answered within ", absl::FormatDuration(absl::Floor(
                                                                     absl::Now() - start, absl::Seconds(1)))),
                    .hint = "rank 0 must run on the host MASTER_ADDR, and be reachable on MASTER_PORT; its "
                            "output may say why it is not"});
}

absl::StatusOr<TcpListener> ListenTcp(const std::string& host, int port) {
  Addresses addresses(nullptr, &freeaddrinfo);
  if (host != kEverywhere) {
    FTUNE_ASSIGN_OR_RETURN(addresses, Resolve(host, port));
  }
  Bound bound;
  for (const addrinfo* address = addresses.get(); address != nullptr; address = address->ai_next) {
    // Many hosts know themselves as 127.0.1.1, where no other reaches them.
    if (IsLoopback(*address->ai_addr) && !NamesLoopback(host)) continue;
    bound = TryListen(address->ai_addr, address->ai_addrlen, address->ai_family);
    if (bound.socket || bound.error == EADDRINUSE) break;
  }
  // Behind a translated address, say: the host has it, but none of its interfaces.
  if (!bound.socket && bound.error != EADDRINUSE) bound = TryListenEverywhere(port);
  if (bound.socket) {
    const int actual = PortOf(bound.socket.get());
    return TcpListener{std::move(bound.socket), actual};
  }
  return UsageError({.file = "environment",
                     .key = "MASTER_PORT",
                     .message = bound.error == EADDRINUSE
                                    ? StrCat("port ", port, " of ", host.empty() ? "this host" : host,
                                             " is in use by another process")
                                    : StrCat("rank 0 cannot listen on port ", port, " of ", host, ": ",
                                             strerror(bound.error)),
                     .hint = "choose another port; every rank must be given the same"});
}

bool NamesLoopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string AddressOf(int socket) { return NumericAddress(socket, getsockname); }
std::string PeerAddressOf(int socket) { return NumericAddress(socket, getpeername); }
int PortOf(int socket) { return NumericPort(socket, getsockname); }
int PeerPortOf(int socket) { return NumericPort(socket, getpeername); }

absl::Status SendTcp(int socket, std::string_view bytes, absl::Time deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      if (!WaitFor(socket, POLLOUT, deadline)) return Late();
    } else {
      return Closed();
    }
  }
  return absl::OkStatus();
}

absl::Status ReceiveTcp(int socket, char* bytes, size_t count, absl::Time deadline) {
  while (count > 0) {
    const ssize_t received = recv(socket, bytes, count, 0);
    if (received > 0) {
      bytes += received;
      count -= static_cast<size_t>(received);
    } else if (received < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!WaitFor(socket, POLLIN, deadline)) return Late();
    } else {
      return Closed();
    }
  }
  return absl::OkStatus();
}

}  // namespace ftune
