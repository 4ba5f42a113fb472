// TCP between the processes of a run, with time limits. Sockets do not pass to programs that are started.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/descriptor.h"

namespace ftune {

// Tries again until `deadline`. Where nobody listens, who does may start later; if not, that is kUnavailable.
absl::StatusOr<Descriptor> ConnectTcp(const std::string& host, int port, absl::Time deadline,
                                      bool may_start_later = true);

struct TcpListener {
  Descriptor socket;
  int port = 0;
};
// On the host's address where that is one of this machine, else, or for kEverywhere, on all. Port 0 is any
// free one. A port that is in use is an error.
inline constexpr char kEverywhere[] = "";
absl::StatusOr<TcpListener> ListenTcp(const std::string& host, int port);

// The numeric addresses of this end of a connection, and of the other.
std::string AddressOf(int socket);
std::string PeerAddressOf(int socket);
// Their ports; 0 where there is none.
int PortOf(int socket);
int PeerPortOf(int socket);
// Whether a name or an address means whichever host it is said on.
bool NamesLoopback(const std::string& host);

// Exactly so many bytes. Errors: the other end has closed (kUnavailable), the deadline (kDeadlineExceeded).
absl::Status SendTcp(int socket, std::string_view bytes, absl::Time deadline);
absl::Status ReceiveTcp(int socket, char* bytes, size_t count, absl::Time deadline);

}  // namespace ftune
