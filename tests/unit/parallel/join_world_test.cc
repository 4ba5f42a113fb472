#include "parallel/launch/join_world.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/launch/tcp.h"
#include "parallel/launch/tcp_store.h"
#include "parallel/launch/tcp_store_server.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/parallel/folder_store.h"
#include "tests/unit/parallel/processes.h"

namespace ftune {
namespace {

// The server has a thread, which a fork would lose: a process of its own.
class ServerProcess {
 public:
  explicit ServerProcess(const TempFolder& folder)
      : process_(1, [&](int) {
          const auto server = TcpStoreServer::Start("127.0.0.1", 0, "p/");
          if (!server.ok()) return 1;
          FolderStore(folder.path()).Set("port", StrCat((*server)->port())).IgnoreError();
          absl::SleepFor(absl::Seconds(60));
          return 0;
        }) {
    const auto port = FolderStore(folder.path()).Get("port", absl::Seconds(20));
    REQUIRE(port.ok());
    port_ = std::stoi(*port);
  }
  int port() const { return port_; }

 private:
  RankProcesses process_;
  int port_ = 0;
};

JoinOptions OptionsOf(const ServerProcess& server, int rank, int ranks) {
  return {.environment = {.rank = rank,
                          .world_size = ranks,
                          .local_world_size = ranks,
                          .address = "127.0.0.1",
                          .port = server.port(),
                          .launcher_serves = true,
                          .prefix = "p/"},
          .start_timeout = absl::Seconds(30)};
}

// Introduces itself as a rank of another host, and comes no further.
int IntroduceOnly(const ServerProcess& server, int rank, const TempFolder& folder) {
  const auto store = TcpStore::Connect("127.0.0.1", server.port(), "p/", absl::Seconds(20));
  if (!store.ok() || !(*store)->Enter(rank).ok()) return 1;
  const char introduction[] =
      R"({"host":"elsewhere","address":"127.0.0.1","server":"127.0.0.1","recipe":""})";
  if (!(*store)->Set(StrCat("rank/", rank), introduction).ok()) return 1;
  if (!(*store)->Set(StrCat("met/", rank), "").ok()) return 1;
  FolderStore(folder.path()).Set("introduced", "").IgnoreError();
  absl::SleepFor(absl::Seconds(60));
  return 0;
}

TEST_CASE("joining: a rank that dies after it introduced itself is named at once") {
  const TempFolder folder;
  const ServerProcess server(folder);
  RankProcesses ranks(3, [&](int rank) {
    if (rank == 2) return IntroduceOnly(server, rank, folder);
    const absl::StatusOr<World> world = JoinWorld(OptionsOf(server, rank, 3));
    if (world.ok()) return 2;
    const std::string message(world.status().message());
    if (ExitCodeOf(world.status()) == 5 && message.find("rank 2: its process died") != std::string::npos)
      return 7;
    return ReportFailures(rank, {message});
  });
  REQUIRE(FolderStore(folder.path()).Get("introduced", absl::Seconds(20)).ok());
  absl::SleepFor(absl::Milliseconds(500));
  ranks.Signal(2, SIGKILL);
  CHECK(ranks.Wait(0, absl::Seconds(20)) == 7);
  CHECK(ranks.Wait(1, absl::Seconds(20)) == 7);
}

TEST_CASE("joining: a rank that cannot start waits for those only that can still come") {
  const auto free_port = [] {
    const absl::StatusOr<TcpListener> any = ListenTcp("127.0.0.1", 0);
    return any.ok() ? any->port : -1;
  };
  const int port = free_port();
  REQUIRE(port > 0);
  // Rank 1 comes and dies, rank 2 cannot start either.
  RankProcesses ranks(3, [&](int rank) {
    const RankEnvironment environment = {.rank = rank,
                                         .world_size = 3,
                                         .local_world_size = 3,
                                         .address = "127.0.0.1",
                                         .port = port,
                                         .prefix = "p/"};
    if (rank == 1) {
      const auto store = TcpStore::Connect("127.0.0.1", port, "p/", absl::Seconds(20));
      return store.ok() && (*store)->Enter(rank).ok() ? 7 : 1;
    }
    const absl::Time begin = absl::Now();
    TellOthers(environment, absl::DataLossError("why"), [] {});
    return absl::Now() - begin < kPatience / 2 ? 7 : 3;
  });
  for (int rank = 0; rank < 3; ++rank) CHECK(ranks.Wait(rank, absl::Seconds(20)) == 7);
}

}  // namespace
}  // namespace ftune
