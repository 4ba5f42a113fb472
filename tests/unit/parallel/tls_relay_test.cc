// A store behind relays, as ranks on several hosts have it with launch.tls.

#include "parallel/launch/tls_relay.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/error.h"
#include "parallel/launch/tcp_store.h"
#include "parallel/launch/tcp_store_server.h"

namespace ftune {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr absl::Duration kSoon = absl::Seconds(20);

Network& LoadedNetwork() {
  void* const library = dlopen(FTUNE_NETWORK_FILE, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  return reinterpret_cast<NetworkFunction>(dlsym(library, kNetworkSymbol))();
}

// The store, the relay before it, and one on the way there.
struct Behind {
  Network& network = LoadedNetwork();
  std::unique_ptr<TcpStoreServer> store = *TcpStoreServer::Start(kLoopback, 0, "p/");
  std::unique_ptr<TlsRelay> server =
      *TlsRelay::Serve(network, *ListenTcp(kLoopback, 0), {.address = kLoopback, .port = store->port()},
                       std::make_shared<RelayedPeers>());

  TlsTarget target() const { return {.address = kLoopback, .port = server->port()}; }
};

// What somebody on the network would see of a call: a relay that notes what it carries.
std::string Overheard(const TlsTarget& target, TcpListener listener) {
  pollfd wait = {.fd = listener.socket.get(), .events = POLLIN};
  poll(&wait, 1, static_cast<int>(absl::ToInt64Milliseconds(kSoon)));
  const Descriptor came(accept4(listener.socket.get(), nullptr, nullptr, SOCK_NONBLOCK));
  const Descriptor to = *ConnectTcp(target.address, target.port, absl::Now() + kSoon);
  std::string seen;
  for (bool open = true; open;) {
    pollfd waits[] = {{.fd = came.get(), .events = POLLIN}, {.fd = to.get(), .events = POLLIN}};
    poll(waits, 2, -1);
    for (const auto& [from, other] : {std::pair(came.get(), to.get()), std::pair(to.get(), came.get())}) {
      char bytes[4096];
      const ssize_t count = recv(from, bytes, sizeof(bytes), 0);
      if (count == 0) open = false;
      if (count <= 0) continue;
      seen.append(bytes, static_cast<size_t>(count));
      if (!SendTcp(other, std::string_view(bytes, static_cast<size_t>(count)), absl::Now() + kSoon).ok())
        open = false;
    }
  }
  return seen;
}

TEST_CASE("a store is used through encrypted connections") {
  const Behind behind;
  const auto client = *TlsRelay::Call(behind.network, behind.target(), behind.server->fingerprint());
  const auto first = *TcpStore::Connect(kLoopback, client->port(), "p/", kSoon);
  const auto second = *TcpStore::Connect(kLoopback, client->port(), "p/", kSoon);
  const std::string large(300'000, 'x');
  REQUIRE(first->Set("key", large, kSoon).ok());
  CHECK(*second->Get("key", kSoon) == large);
  CHECK(client->why_failed() == "");
  CHECK(behind.server->why_failed() == "");
}

TEST_CASE("the end of a connection passes through the relays") {
  const Behind behind;
  const auto client = *TlsRelay::Call(behind.network, behind.target(), behind.server->fingerprint());
  auto rank = *TcpStore::Connect(kLoopback, client->port(), "p/", kSoon);
  REQUIRE(rank->Enter(3).ok());
  const auto other = *TcpStore::Connect(kLoopback, client->port(), "p/", kSoon);
  rank.reset();  // without Leave: it has died
  const auto waited = other->Get("never set", kSoon);
  CHECK(std::string(waited.status().message()).find("rank 3") != std::string::npos);
}

TEST_CASE("another certificate is refused, and nothing is told to who has it") {
  const Behind behind;
  const auto stranger = *TlsRelay::Serve(behind.network, *ListenTcp(kLoopback, 0),
                                         {kLoopback, behind.store->port()}, std::make_shared<RelayedPeers>());
  const auto client =
      *TlsRelay::Call(behind.network, {kLoopback, stranger->port()}, behind.server->fingerprint());
  CHECK_FALSE(TcpStore::Connect(kLoopback, client->port(), "p/", kSoon).ok());
  CHECK(client->why_failed().find("certificate") != std::string::npos);
  CHECK_FALSE(behind.store->Has("p/hello"));
}

TEST_CASE("a plain connection is refused") {
  const Behind behind;
  CHECK_FALSE(TcpStore::Connect(kLoopback, behind.server->port(), "p/", kSoon).ok());
  CHECK_FALSE(behind.store->Has("p/hello"));
  CHECK(behind.server->TakeStrangers() == std::vector<std::string>{kLoopback});
  CHECK(behind.server->TakeStrangers().empty());
}

TEST_CASE("neither prefix nor values are seen on the network") {
  const Behind behind;
  TcpListener listener = *ListenTcp(kLoopback, 0);
  const TlsTarget overheard = {kLoopback, listener.port};
  std::string seen;
  std::thread thread([&] { seen = Overheard(behind.target(), std::move(listener)); });
  {
    const auto client = *TlsRelay::Call(behind.network, overheard, behind.server->fingerprint());
    const auto store = *TcpStore::Connect(kLoopback, client->port(), "p/secret-", kSoon);
    REQUIRE(store->Set("key", "value-to-hide", kSoon).ok());
    CHECK(*store->Get("key", kSoon) == "value-to-hide");
  }
  thread.join();
  CHECK(seen.size() > 500);
  CHECK(seen.find("secret") == std::string::npos);
  CHECK(seen.find("value-to-hide") == std::string::npos);
}

TEST_CASE("relays end while connections are open") {
  auto behind = std::make_unique<Behind>();
  auto client = *TlsRelay::Call(behind->network, behind->target(), behind->server->fingerprint());
  const auto store = *TcpStore::Connect(kLoopback, client->port(), "p/", kSoon);
  behind.reset();
  client.reset();
  CHECK_FALSE(store->Get("hello", kSoon).ok());
}

}  // namespace
}  // namespace ftune
