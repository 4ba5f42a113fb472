#include "parallel/comm/shm_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/mismatch.h"
#include "parallel/comm/status_text.h"

namespace ftune {
namespace {

constexpr size_t kMaxText = 32 << 10;
constexpr absl::Duration kRetry = absl::Milliseconds(5);

struct Header {
  ShmNews news;
  uint64_t id;
  int64_t bytes;
};

// In the abstract namespace: no file, and gone with the socket.
socklen_t AddressOf(const std::string& name, int rank, sockaddr_un& address) {
  address = {.sun_family = AF_UNIX};
  const std::string path = StrCat("ftune/", name, "/", rank);
  std::memcpy(address.sun_path + 1, path.data(), path.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
}

absl::Status SocketError(std::string_view action, int error) {
  return UserError(ExitCode::kRankFailed, {.message = StrCat("cannot ", action, ": ", std::strerror(error))});
}

Descriptor NewSocket() { return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

bool OfThisUser(int fd) {
  ucred peer;
  socklen_t length = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

bool Poll(int fd, short events, absl::Duration patience) {
  pollfd entry = {.fd = fd, .events = events};
  return poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(patience)) + 1) > 0;
}

absl::Status AbsentError(const ShmOptions& options, int rank) {
  return UserError(ExitCode::kTimeout,
                   {.key = StrCat("rank ", options.NameOf(rank)),
                    .message = StrCat("it did not join the other ranks of this host within ",
                                      absl::FormatDuration(options.timeout)),
                    .hint = "look at its log; if it is only slow, raise launch.start_timeout"});
}

absl::StatusOr<Descriptor> Listen(const ShmOptions& options) {
  Descriptor listener = NewSocket();
  if (!listener) return SocketError("make a socket", errno);
  sockaddr_un address;
  const socklen_t length = AddressOf(options.name, options.rank, address);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) {
    if (errno != EADDRINUSE) return SocketError("name a socket", errno);
    return UserError(ExitCode::kRankFailed, {.key = StrCat("rank ", options.NameOf(options.rank)),
                                             .message = "another process of this host has this rank already",
                                             .hint = "start each rank once"});
  }
  if (listen(listener.get(), options.size) != 0) return SocketError("listen on a socket", errno);
  return listener;
}

// An error where a rank that was here is gone: what it said, if it said anything.
absl::Status AllHere(const ShmOptions& options, const std::vector<ShmSocket>& sockets) {
  std::vector<pollfd> entries;
  for (const ShmSocket& socket : sockets) entries.push_back({.fd = socket.fd()});
  if (poll(entries.data(), entries.size(), 0) <= 0) return absl::OkStatus();
  for (int rank = 0; rank < options.size; ++rank) {
    if (entries[rank].revents == 0) continue;
    ShmMessage message;
    while (sockets[rank].Receive(message) == ShmSocket::Received::kMessage) {
      if (message.news == ShmNews::kAbort) return HeardStatus(message.text);
    }
    return LostRankError(options.NameOf(rank), "it died while the ranks joined");
  }
  return absl::OkStatus();
}

absl::StatusOr<ShmSocket> Connect(const ShmOptions& options, const std::vector<ShmSocket>& sockets, int rank,
                                  absl::Time deadline) {
  sockaddr_un address;
  const socklen_t length = AddressOf(options.name, rank, address);
  while (true) {
    Descriptor connection = NewSocket();
    if (!connection) return SocketError("make a socket", errno);
    if (connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) {
      if (!OfThisUser(connection.get())) {
        return UserError(ExitCode::kRankFailed, {.key = StrCat("rank ", options.NameOf(rank)),
                                                 .message = "a process of another user has its place"});
      }
      return ShmSocket(std::move(connection));
    }
    if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) {
      return SocketError(StrCat("connect to rank ", options.NameOf(rank)), errno);
    }
    FTUNE_RETURN_IF_ERROR(AllHere(options, sockets));
    if (absl::Now() > deadline) return AbsentError(options, rank);
    absl::SleepFor(kRetry);
  }
}

absl::Status Greet(const ShmOptions& options, const ShmSocket& socket, int rank) {
  const ShmMessage hello = {
      .news = ShmNews::kHello, .id = static_cast<uint64_t>(options.rank), .bytes = options.size};
  if (socket.Send(hello, -1, options.timeout)) return absl::OkStatus();
  return LostRankError(options.NameOf(rank), "it died while the ranks joined");
}

// Each rank connects to those below it and is connected to by those above.
absl::Status ConnectAll(const ShmOptions& options, std::vector<ShmSocket>& sockets) {
  const absl::Time deadline = absl::Now() + options.timeout;
  FTUNE_ASSIGN_OR_RETURN(const Descriptor listener, Listen(options));
  for (int rank = 0; rank < options.rank; ++rank) {
    FTUNE_ASSIGN_OR_RETURN(sockets[rank], Connect(options, sockets, rank, deadline));
    FTUNE_RETURN_IF_ERROR(Greet(options, sockets[rank], rank));
  }
  for (int missing = options.size - 1 - options.rank; missing > 0;) {
    if (!Poll(listener.get(), POLLIN, kRetry)) {
      FTUNE_RETURN_IF_ERROR(AllHere(options, sockets));
      if (absl::Now() <= deadline) continue;
      int absent = options.rank + 1;
      while (sockets[absent]) ++absent;
      return AbsentError(options, absent);
    }
    Descriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    // Whoever else knocks is sent away.
    if (!connection || !OfThisUser(connection.get())) continue;
    ShmSocket socket(std::move(connection));
    ShmMessage hello;
    if (!Poll(socket.fd(), POLLIN, deadline - absl::Now()) ||
        socket.Receive(hello) != ShmSocket::Received::kMessage || hello.news != ShmNews::kHello) {
      continue;
    }
    const auto rank = static_cast<int64_t>(hello.id);
    if (hello.bytes != options.size || rank <= options.rank || rank >= options.size || sockets[rank]) {
      return UserError(ExitCode::kRankFailed,
                       {.key = "launch",
                        .message = "the ranks of this host do not agree on their number",
                        .found = StrCat("rank ", rank, " of ", hello.bytes, " beside rank ", options.rank,
                                        " of ", options.size)});
    }
    sockets[rank] = std::move(socket);
    --missing;
  }
  return absl::OkStatus();
}

}  // namespace

bool ShmSocket::Send(const ShmMessage& message, int descriptor, absl::Duration patience) const {
  Header header = {.news = message.news, .id = message.id, .bytes = message.bytes};
  std::array<iovec, 2> parts = {
      {{.iov_base = &header, .iov_len = sizeof(header)},
       {.iov_base = const_cast<char*>(message.text.data()),
        .iov_len = message.text.size() < kMaxText ? message.text.size() : kMaxText}}};
  msghdr packet = {.msg_iov = parts.data(), .msg_iovlen = parts.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  if (descriptor >= 0) {
    packet.msg_control = control.data();
    packet.msg_controllen = control.size();
    cmsghdr* attached = CMSG_FIRSTHDR(&packet);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(attached), &descriptor, sizeof(int));
  }
  const absl::Time deadline = absl::Now() + patience;
  while (sendmsg(socket_.get(), &packet, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    // ETOOMANYREFS: more descriptors are under way than a process may have open.
    if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ETOOMANYREFS) return false;
    if (absl::Now() >= deadline) return false;
    if (errno == ETOOMANYREFS) absl::SleepFor(kRetry);
    Poll(socket_.get(), POLLOUT, kRetry);
  }
  return true;
}

ShmSocket::Received ShmSocket::Receive(ShmMessage& message) const {
  Header header;
  std::string text(kMaxText, '\0');
  std::array<iovec, 2> parts = {
      {{.iov_base = &header, .iov_len = sizeof(header)}, {.iov_base = text.data(), .iov_len = text.size()}}};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr packet = {.msg_iov = parts.data(),
                   .msg_iovlen = parts.size(),
                   .msg_control = control.data(),
                   .msg_controllen = control.size()};
  ssize_t length = 0;
  do {
    length = recvmsg(socket_.get(), &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    // A reset comes before what was sent ahead of it: that is still to be read.
  } while (length < 0 && (errno == EINTR || errno == ECONNRESET));
  if (length < 0) return errno == EAGAIN ? Received::kNothing : Received::kGone;
  if (length < static_cast<ssize_t>(sizeof(header))) return Received::kGone;
  text.resize(static_cast<size_t>(length) - sizeof(header));
  message = {.news = header.news, .id = header.id, .bytes = header.bytes, .text = std::move(text)};
  if (const cmsghdr* attached = CMSG_FIRSTHDR(&packet);
      attached != nullptr && attached->cmsg_type == SCM_RIGHTS) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(attached), sizeof(int));
    message.descriptor = Descriptor(fd);
  }
  return Received::kMessage;
}

absl::StatusOr<std::vector<ShmSocket>> ConnectRanks(const ShmOptions& options) {
  std::vector<ShmSocket> sockets(static_cast<size_t>(options.size));
  const absl::Status status = ConnectAll(options, sockets);
  if (status.ok()) return sockets;
  for (const ShmSocket& socket : sockets) {
    const ShmMessage message = {.news = ShmNews::kAbort, .text = EncodeStatus(status)};
    if (socket) socket.Send(message, -1, absl::ZeroDuration());
  }
  return status;
}

}  // namespace ftune
