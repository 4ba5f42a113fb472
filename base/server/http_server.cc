// What the library exports: see base/http/http_server.h.

#include "base/http/http_server.h"

#include <httplib.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/quiet_thread.h"

namespace ftune {
namespace {

constexpr int kThreads = 4;
constexpr int kPatience = 2;  // seconds, with a client that says or takes nothing
constexpr size_t kLongestBody = 4096;

bool IsKnown(const std::string& address) {
  addrinfo* found = nullptr;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  if (getaddrinfo(address.c_str(), nullptr, &hints, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

// Whoever sends his question a byte at a time is not waited for. The library does not say which connections
// it has: they are those of this process that have the server's port.
void ShutConnections(int port) {
  std::error_code error;
  for (std::filesystem::directory_iterator fd("/proc/self/fd", error), end; !error && fd != end;
       fd.increment(error)) {
    const int number = std::atoi(fd->path().filename().c_str());
    sockaddr_storage local = {};
    socklen_t size = sizeof(local);
    if (getsockname(number, reinterpret_cast<sockaddr*>(&local), &size) != 0) continue;
    const bool v6 = local.ss_family == AF_INET6;
    if (!v6 && local.ss_family != AF_INET) continue;
    const in_port_t its_port = v6 ? reinterpret_cast<sockaddr_in6*>(&local)->sin6_port
                                  : reinterpret_cast<sockaddr_in*>(&local)->sin_port;
    if (ntohs(its_port) == port) shutdown(number, SHUT_RDWR);
  }
}

class PageServer final : public HttpServer {
 public:
  explicit PageServer(const HttpServerOptions& options) {
    for (const auto& [path, page] : options.pages) {
      server_.Get(path, [page = page](const httplib::Request&, httplib::Response& response) {
        response.set_content(page.body(), page.type);
      });
    }
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    // One answer a connection: who keeps one open without asking would keep a thread.
    server_.set_keep_alive_max_count(1);
    server_.set_keep_alive_timeout(kPatience);
    server_.set_read_timeout(kPatience);
    server_.set_write_timeout(kPatience);
    server_.set_payload_max_length(kLongestBody);
    // The library's own choice would let two runs listen on one port.
    server_.set_socket_options([](socket_t socket) {
      const int on = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    });
  }
  ~PageServer() override {
    if (!thread_.joinable()) return;
    server_.stop();
    ShutConnections(port_);
    thread_.join();
  }

  // errno's value where it cannot.
  int Listen(const std::string& address, int port) {
    if (!IsKnown(address)) return 0;
    errno = 0;
    const bool any = port == 0;
    port_ = any ? server_.bind_to_any_port(address) : server_.bind_to_port(address, port) ? port : -1;
    if (port_ < 0) return errno;
    thread_ = QuietThread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
    return 0;
  }

  int port() const override { return port_; }

 private:
  httplib::Server server_;
  int port_ = -1;
  std::thread thread_;
};

}  // namespace
}  // namespace ftune

extern "C" __attribute__((visibility("default"))) std::unique_ptr<ftune::HttpServer> FtuneHttpServer(
    const ftune::HttpServerOptions& options, int* error) {
  auto server = std::make_unique<ftune::PageServer>(options);
  *error = server->Listen(options.address, options.port);
  if (server->port() < 0) return nullptr;
  return server;
}
