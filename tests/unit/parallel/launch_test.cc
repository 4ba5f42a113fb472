#include <doctest/doctest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/error.h"
#include "parallel/launch/core_shares.h"
#include "parallel/launch/rank_environment.h"
#include "parallel/launch/stop_limit.h"
#include "parallel/launch/tcp_store.h"
#include "parallel/launch/tcp_store_server.h"
#include "tests/unit/parallel/processes.h"

namespace ftune {
namespace {

using Variables = std::map<std::string, std::string>;

const Variables kGood = {{"RANK", "3"},        {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},  {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "h"}, {"MASTER_PORT", "29500"}};

absl::StatusOr<std::optional<RankEnvironment>> Read(const Variables& variables) {
  return ReadRankEnvironment([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string Wrong(const std::string& name, const std::optional<std::string>& value) {
  Variables variables = kGood;
  variables.erase(name);
  if (value) variables[name] = *value;
  const auto read = Read(variables);
  CHECK(ExitCodeOf(read.status()) == 2);
  const std::optional<ErrorDetail> detail = DetailOf(read.status());
  return detail ? detail->key : "";
}

TEST_CASE("the variables of a launcher") {
  const auto read = Read(kGood);
  REQUIRE(read.ok());
  REQUIRE(read->has_value());
  const RankEnvironment& environment = **read;
  CHECK(environment.rank == 3);
  CHECK(environment.world_size == 8);
  CHECK(environment.local_rank == 1);
  CHECK(environment.local_world_size == 2);
  CHECK(environment.address == "h");
  CHECK(environment.port == 29500);
  CHECK_FALSE(environment.launcher_serves);

  CHECK_FALSE(Read({})->has_value());
  CHECK_FALSE(Read({{"MASTER_PORT", "x"}})->has_value());  // somebody else's
  CHECK((*Read({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}}))->world_size == 1);

  Variables torchrun = kGood;
  torchrun["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  torchrun["TORCHELASTIC_RESTART_COUNT"] = "2";
  CHECK((*Read(torchrun))->launcher_serves);
  CHECK((*Read(torchrun))->prefix != (*Read(kGood))->prefix);

  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    CHECK(Wrong(name, std::nullopt) == name);
  }
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"}) {
    for (const char* value : {"x", "-1", "1.5", "99999999999", " 1"}) CHECK(Wrong(name, value) == name);
  }
  CHECK(Wrong("RANK", "8") == "RANK");
  CHECK(Wrong("LOCAL_RANK", "2") == "LOCAL_RANK");
  CHECK(Wrong("LOCAL_WORLD_SIZE", "9") == "LOCAL_WORLD_SIZE");
}

TEST_CASE("cores are shared out") {
  using Shares = std::vector<std::vector<int>>;
  CHECK(ShareCores({0, 1, 2, 3}, 2) == Shares{{0, 1}, {2, 3}});
  CHECK(ShareCores({1, 3, 5, 7, 9}, 2) == Shares{{1, 3, 5}, {7, 9}});
  CHECK(ShareCores({4, 6}, 3) == Shares{{4}, {6}, {4}});
  CHECK(ShareCores({}, 2) == Shares{{}, {}});
  CHECK_FALSE(AllowedCores().empty());
}

std::unique_ptr<TcpStore> Client(const TcpStoreServer& server, const std::string& prefix = "p/") {
  absl::StatusOr<std::unique_ptr<TcpStore>> store =
      TcpStore::Connect("127.0.0.1", server.port(), prefix, absl::Seconds(5));
  REQUIRE(store.ok());
  return *std::move(store);
}

std::unique_ptr<TcpStoreServer> Server() {
  absl::StatusOr<std::unique_ptr<TcpStoreServer>> server = TcpStoreServer::Start("127.0.0.1", 0, "p/");
  REQUIRE(server.ok());
  return *std::move(server);
}

TEST_CASE("a process that is stopped for too long is killed") {
  RankProcesses stopped(1, [](int) {
    const StopLimit limit(absl::Milliseconds(200));
    raise(SIGSTOP);
    return 0;
  });
  CHECK(stopped.Wait(0) == 128 + SIGKILL);
}

TEST_CASE("a store: what one sets another one gets, and waits for") {
  const std::unique_ptr<TcpStoreServer> server = Server();
  const std::unique_ptr<TcpStore> a = Client(*server), b = Client(*server);
  const std::string large(1 << 19, 'x');
  REQUIRE(a->Set("large", large).ok());
  CHECK(*b->Get("large", absl::Seconds(5)) == large);

  std::string late;
  std::thread waiter([&] { late = *b->Get("late", absl::Seconds(10)); });
  // A wait holds up nobody else, not even in the same process.
  CHECK(*b->Get("large", absl::Seconds(5)) == large);
  absl::SleepFor(absl::Milliseconds(50));
  REQUIRE(a->Set("late", "now").ok());
  waiter.join();
  CHECK(late == "now");

  REQUIRE(a->Set("late", std::string("\0b", 2)).ok());
  CHECK(*a->Get("late", absl::Seconds(5)) == std::string("\0b", 2));
  const absl::Status never = a->Get("never", absl::Milliseconds(50)).status();
  CHECK(ExitCodeOf(never) == 6);
  CHECK(never.message().find("never") != std::string::npos);
  CHECK(*a->Get("late", absl::Seconds(5)) == std::string("\0b", 2));
}

TEST_CASE("a store: those without the secret are turned away, and one that ends is noticed") {
  std::unique_ptr<TcpStoreServer> server = Server();
  CHECK_FALSE(TcpStore::Connect("127.0.0.1", server->port(), "q/", absl::Seconds(5)).ok());
  const std::unique_ptr<TcpStore> client = Client(*server);
  absl::Status status;
  std::thread waiter([&] { status = client->Get("never", absl::Seconds(30)).status(); });
  absl::SleepFor(absl::Milliseconds(50));
  const int port = server->port();
  server.reset();
  waiter.join();
  CHECK(ExitCodeOf(status) == 5);
  CHECK(ExitCodeOf(TcpStore::Connect("127.0.0.1", port, "p/", absl::Milliseconds(100)).status()) == 6);
}

TEST_CASE("a store: a port that is in use") {
  const std::unique_ptr<TcpStoreServer> server = Server();
  const absl::Status again = TcpStoreServer::Start("127.0.0.1", server->port(), "p/").status();
  CHECK(ExitCodeOf(again) == 2);
  CHECK(again.message().find("in use") != std::string::npos);
  CHECK(ExitCodeOf(TcpStoreServer::Start("no.such.host.invalid", 0, "p/").status()) == 2);
}

TEST_CASE("a connection that says nothing is closed, and its address told") {
  const auto server = *TcpStoreServer::Start("127.0.0.1", 0, "p/");
  const auto client = *TcpStore::Connect("127.0.0.1", server->port(), "p/", absl::Seconds(20));
  const Descriptor silent =
      *ConnectTcp("127.0.0.1", server->port(), absl::Now() + absl::Seconds(20), /*may_start_later=*/false);
  char byte;
  const absl::Status status = ReceiveTcp(silent.get(), &byte, 1, absl::Now() + absl::Seconds(60));
  CHECK(absl::IsUnavailable(status));
  CHECK(server->TakeStrangers() == std::vector<std::string>{"127.0.0.1"});
  CHECK(client->Set("still", "here", absl::Seconds(20)).ok());
  CHECK(*client->Get("still", absl::Seconds(20)) == "here");
}

}  // namespace
}  // namespace ftune
