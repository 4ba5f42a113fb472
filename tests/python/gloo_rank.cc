// One rank of a group over several hosts, for test_gloo_hosts.py: checks all collectives, or sums until
// something goes wrong. gloo_rank (check | sum | world | idle) RANK HOSTS FOLDER ADDRESS, where HOSTS is
// "2,1": as many ranks on each host; `world` sums too, but joins as ftune does, ADDRESS being what rank 0 is
// called; `idle` joins like that and calls nothing. What went wrong is printed. Exit codes are those of
// ftune; 1 where a collective gave something else than it should.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/comm/gloo_transport.h"
#include "parallel/comm/hierarchical_transport.h"
#include "parallel/comm/shm_transport.h"
#include "parallel/comm/single_transport.h"
#include "parallel/launch/join_world.h"
#include "tests/unit/parallel/folder_store.h"
#include "tests/unit/parallel/transport_checks.h"

namespace ftune {
namespace {

int Report(const absl::Status& status) {
  std::printf("%s\n", std::string(status.message()).c_str());
  return ExitCodeOf(status);
}

constexpr int kPort = 29600;

absl::StatusOr<std::unique_ptr<Communicator>> JoinAsFtune(int rank, const Hosts& hosts,
                                                          const std::string& address) {
  int first = 0;
  auto host = hosts.begin();
  while (first + *host <= rank) first += *host++;
  FTUNE_ASSIGN_OR_RETURN(
      World world, JoinWorld({.environment = {.rank = rank,
                                              .world_size = std::accumulate(hosts.begin(), hosts.end(), 0),
                                              .local_rank = rank - first,
                                              .local_world_size = *host,
                                              .address = address,
                                              .port = kPort,
                                              .prefix = "gloo_rank/"},
                              .start_timeout = absl::Seconds(30)}));
  return std::move(world.communicator);
}

absl::StatusOr<std::unique_ptr<Communicator>> Join(int rank, const Hosts& hosts, const std::string& folder,
                                                   const std::string& address) {
  int host = 0, first = 0;
  while (first + hosts[host] <= rank) first += hosts[host++];
  std::vector<int> names(hosts[host]);
  std::iota(names.begin(), names.end(), first);
  std::unique_ptr<Transport> inner = std::make_unique<SingleTransport>();
  if (hosts[host] > 1) {
    FTUNE_ASSIGN_OR_RETURN(inner,
                           JoinSharedMemory({.rank = rank - first,
                                             .size = hosts[host],
                                             .name = StrCat("gloo_rank", folder.substr(folder.rfind('/'))),
                                             .timeout = absl::Seconds(30),
                                             .rank_names = names}));
  }
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> outer,
                         JoinGloo({.rank = rank,
                                   .size = std::accumulate(hosts.begin(), hosts.end(), 0),
                                   .store = std::make_shared<FolderStore>(folder),
                                   .prefix = "world",
                                   .address = address,
                                   .timeout = absl::Seconds(30)}));
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                         MakeHierarchicalTransport(hosts, std::move(inner), std::move(outer)));
  return std::make_unique<Communicator>(std::move(transport));
}

int Main(const std::string& what, int rank, const Hosts& hosts, const std::string& folder,
         const std::string& address) {
  const absl::StatusOr<std::unique_ptr<Communicator>> joined = what == "world" || what == "idle"
                                                                   ? JoinAsFtune(rank, hosts, address)
                                                                   : Join(rank, hosts, folder, address);
  if (!joined.ok()) return Report(joined.status());
  Communicator& comm = **joined;
  comm.set_timeout(absl::Seconds(what == "sum" ? 2 : 30));
  if (what == "check") {
    const std::string failures = TransportChecks(comm, hosts).Run();
    std::printf("%s", failures.c_str());
    return failures.empty() ? 0 : 1;
  }
  if (what == "idle") {
    FolderStore(folder).Set(StrCat("summing/", rank), "").IgnoreError();
    while (comm.status().ok()) absl::SleepFor(absl::Milliseconds(5));
    return Report(comm.status());
  }
  std::vector<float> x(100'000, 1.0f);
  for (int step = 0;; ++step) {
    const absl::Status status = comm.Run(Call::AllReduce(
        {reinterpret_cast<std::byte*>(x.data()), static_cast<int64_t>(x.size()), DType::kF32, {}}));
    if (!status.ok()) return Report(status);
    if (step == 10) FolderStore(folder).Set(StrCat("summing/", rank), "").IgnoreError();
  }
}

}  // namespace
}  // namespace ftune

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  ftune::Hosts hosts;
  std::istringstream list(argv[3]);
  for (std::string ranks; std::getline(list, ranks, ',');) hosts.push_back(std::atoi(ranks.c_str()));
  return ftune::Main(argv[1], std::atoi(argv[2]), hosts, argv[4], argv[5]);
}
