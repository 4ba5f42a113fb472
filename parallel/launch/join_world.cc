#include "parallel/launch/join_world.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/gloo_transport.h"
#include "parallel/comm/hierarchical_transport.h"
#include "parallel/comm/shm_transport.h"
#include "parallel/comm/single_transport.h"
#include "parallel/launch/host_identity.h"
#include "parallel/launch/random_token.h"
#include "parallel/launch/tcp.h"
#include "parallel/launch/tcp_store.h"
#include "parallel/launch/tcp_store_protocol.h"
#include "parallel/launch/tcp_store_server.h"

namespace ftune {
namespace {

// What a rank says of itself.
struct Introduction {
  std::string host;
  std::string address;  // of its host, on the way to the store
  std::string server;   // address of the store's host, as this one reaches it
  std::string recipe;

  std::string Encode() const {
    const nlohmann::json json = {
        {"host", host}, {"address", address}, {"server", server}, {"recipe", recipe}};
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  static std::optional<Introduction> Decode(const std::string& text) {
    const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) return std::nullopt;
    const auto text_of = [&](const char* key) { return json.value(key, std::string()); };
    if (!json.contains("host") || !json.contains("recipe")) return std::nullopt;
    return Introduction{.host = text_of("host"),
                        .address = text_of("address"),
                        .server = text_of("server"),
                        .recipe = text_of("recipe")};
  }
};

// For ranks that end a little later than the one that serves the store.
constexpr absl::Duration kLinger = absl::Seconds(1);

std::string KeyOf(int rank) { return StrCat("rank/", rank); }
std::string MetKey(int rank) { return StrCat("met/", rank); }

absl::Status DoesNotCome(int rank, absl::Duration waited) {
  return UserError(
      ExitCode::kTimeout,
      {.key = StrCat("rank ", rank),
       .message = StrCat("it did not come within ", absl::FormatDuration(waited)),
       .hint = "look at its output and its host; if it is only slow, raise launch.start_timeout"});
}

absl::Status OtherVersion(int rank) {
  return UserError(ExitCode::kRankFailed, {.key = StrCat("rank ", rank),
                                           .message = "it is another version of ftune",
                                           .hint = "start the same program on all hosts"});
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

absl::Status CheckSameRecipe(int rank, const std::string& recipe, const std::string& expected) {
  if (recipe == expected) return absl::OkStatus();
  const std::vector<std::string> ours = Lines(recipe), theirs = Lines(expected);
  const auto [a, b] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  const auto show = [](const auto& line, const auto& end) {
    return line == end ? std::string("nothing more")
                       : StrCat("'", line->substr(line->find_first_not_of(' ')), "'");
  };
  return UsageError({.key = StrCat("rank ", rank),
                     .message = "it was given another recipe than rank 0",
                     .found = show(a, ours.end()),
                     .expected = show(b, theirs.end()),
                     .hint = "start all ranks with the same recipe and overrides"});
}

// What all ranks say of themselves, in their order.
absl::StatusOr<std::vector<Introduction>> Meet(TcpStore& store, const JoinOptions& options,
                                               absl::Time deadline) {
  const RankEnvironment& environment = options.environment;
  const Introduction own{
      .host = HostIdentity(),
      .address = environment.host_address.empty() ? store.OwnAddress() : environment.host_address,
      .server = store.ServerAddress(),
      .recipe = options.recipe};
  FTUNE_RETURN_IF_ERROR(store.Set(KeyOf(environment.rank), own.Encode()));
  std::vector<Introduction> all;
  // What a rank sets, until the deadline, or for `least`.
  const auto wait_for = [&](int rank, const std::string& key,
                            absl::Duration least) -> absl::StatusOr<std::string> {
    absl::StatusOr<std::string> text = store.Get(key, std::max(deadline - absl::Now(), least));
    const bool late = !text.ok() && ExitCodeOf(text.status()) == static_cast<int>(ExitCode::kTimeout);
    return late ? DoesNotCome(rank, options.start_timeout) : std::move(text);
  };
  for (int rank = 0; rank < environment.world_size; ++rank) {
    FTUNE_ASSIGN_OR_RETURN(const std::string text, wait_for(rank, KeyOf(rank), absl::ZeroDuration()));
    std::optional<Introduction> introduction = Introduction::Decode(text);
    if (!introduction) return OtherVersion(rank);
    all.push_back(*std::move(introduction));
  }
  // Rank 0 may end now, and with it the store: not before all have read what they need to say why.
  FTUNE_RETURN_IF_ERROR(store.Set(MetKey(environment.rank), ""));
  for (int rank = 0; environment.rank == 0 && rank < environment.world_size; ++rank) {
    FTUNE_RETURN_IF_ERROR(wait_for(rank, MetKey(rank), absl::Seconds(1)).status());
  }
  for (int rank = 1; rank < environment.world_size; ++rank) {
    FTUNE_RETURN_IF_ERROR(CheckSameRecipe(rank, all[rank].recipe, all[0].recipe));
  }
  return all;
}

std::vector<int> NumberHosts(const std::vector<Introduction>& ranks) {
  std::vector<std::string> hosts;
  std::vector<int> numbers;
  for (const Introduction& rank : ranks) {
    const auto found = std::find(hosts.begin(), hosts.end(), rank.host);
    numbers.push_back(static_cast<int>(found - hosts.begin()));
    if (found == hosts.end()) hosts.push_back(rank.host);
  }
  return numbers;
}

// The address under which the other hosts reach a rank's. Its way to a store on its own host may be the
// loopback, which means another host to everyone else: then what those call the store's host.
std::string ReachableAddress(const std::vector<Introduction>& ranks, int rank) {
  const Introduction& own = ranks[rank];
  if (!NamesLoopback(own.address)) return own.address;
  const auto outside = std::find_if(ranks.begin(), ranks.end(),
                                    [&](const Introduction& other) { return other.host != own.host; });
  return outside == ranks.end() ? own.address : outside->server;
}

// A name of this run, which rank 0 makes up.
absl::StatusOr<std::string> NameRun(TcpStore& store, int rank, absl::Duration timeout) {
  if (rank == 0) FTUNE_RETURN_IF_ERROR(store.Set("run", RandomToken()));
  return store.Get("run", timeout);
}

// The store, and its server where this rank has it: for as long as anyone uses the store.
struct ServedStore {
  std::unique_ptr<TcpStoreServer> server;
  std::unique_ptr<TcpStore> client;

  // The others may still want to hear why this rank ends.
  ~ServedStore() {
    if (client) client->Leave();
    client.reset();
    if (server) server->AwaitClients(kLinger);
  }
};

// Where the store listens. A name of the loopback, which launchers often give rank 0, means this host to it
// alone: others come by another address.
std::string ListenAddress(const RankEnvironment& environment) {
  const bool one_host = environment.local_world_size == environment.world_size;
  return NamesLoopback(environment.address) && !one_host ? kEverywhere : environment.address;
}

absl::StatusOr<std::shared_ptr<ServedStore>> OpenStore(const JoinOptions& options) {
  const RankEnvironment& environment = options.environment;
  auto store = std::make_shared<ServedStore>();
  if (environment.rank == 0 && !environment.launcher_serves) {
    FTUNE_ASSIGN_OR_RETURN(store->server, TcpStoreServer::Start(ListenAddress(environment), environment.port,
                                                                environment.prefix));
  }
  FTUNE_ASSIGN_OR_RETURN(store->client, TcpStore::Connect(environment.address, environment.port,
                                                          environment.prefix, options.start_timeout));
  FTUNE_RETURN_IF_ERROR(store->client->Enter(environment.rank));
  return store;
}

absl::StatusOr<std::unique_ptr<Transport>> JoinHost(const JoinOptions& options,
                                                    const std::vector<int>& members, const std::string& name,
                                                    absl::Duration timeout) {
  if (members.size() == 1) return std::make_unique<SingleTransport>();
  const auto own = std::find(members.begin(), members.end(), options.environment.rank);
  return JoinSharedMemory({.rank = static_cast<int>(own - members.begin()),
                           .size = static_cast<int>(members.size()),
                           .name = name,
                           .timeout = timeout,
                           .heartbeat_timeout = options.heartbeat_timeout,
                           .rank_names = members});
}

absl::StatusOr<std::unique_ptr<Transport>> JoinHosts(const JoinOptions& options,
                                                     const std::shared_ptr<ServedStore>& store,
                                                     const std::vector<int>& host_of_rank,
                                                     const std::string& address, const std::string& name,
                                                     absl::Duration timeout) {
  const int rank = options.environment.rank;
  std::vector<std::vector<int>> hosts(1 + *std::max_element(host_of_rank.begin(), host_of_rank.end()));
  for (int i = 0; i < std::ssize(host_of_rank); ++i) hosts[host_of_rank[i]].push_back(i);
  if (hosts.size() == 1) return JoinHost(options, hosts[0], name, timeout);
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> outer,
                         JoinGloo({.rank = rank,
                                   .size = options.environment.world_size,
                                   .store = std::shared_ptr<KeyValueStore>(store, store->client.get()),
                                   .prefix = "gloo/",
                                   .address = address,
                                   .timeout = timeout,
                                   .heartbeat_timeout = options.heartbeat_timeout,
                                   .first_serves = !options.environment.launcher_serves}));
  // Inside a host memory is faster; for that its ranks must follow one another.
  const bool together = std::is_sorted(host_of_rank.begin(), host_of_rank.end());
  if (!together || hosts.size() == host_of_rank.size()) return outer;
  FTUNE_ASSIGN_OR_RETURN(
      std::unique_ptr<Transport> inner,
      JoinHost(options, hosts[host_of_rank[rank]], StrCat(name, "-", host_of_rank[rank]), timeout));
  std::vector<int> sizes;
  for (const std::vector<int>& host : hosts) sizes.push_back(static_cast<int>(host.size()));
  return MakeHierarchicalTransport(sizes, std::move(inner), std::move(outer));
}

absl::StatusOr<World> Join(const JoinOptions& options, const std::shared_ptr<ServedStore>& store,
                           absl::Time deadline) {
  const RankEnvironment& environment = options.environment;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<Introduction> ranks, Meet(*store->client, options, deadline));
  FTUNE_ASSIGN_OR_RETURN(const std::string name,
                         NameRun(*store->client, environment.rank, options.start_timeout));
  World world{.host_of_rank = NumberHosts(ranks)};
  FTUNE_ASSIGN_OR_RETURN(
      std::unique_ptr<Transport> transport,
      JoinHosts(options, store, world.host_of_rank, ReachableAddress(ranks, environment.rank), name,
                std::max(deadline - absl::Now(), absl::Seconds(1))));
  world.communicator = std::make_unique<Communicator>(std::move(transport));
  // Only a launcher that serves the store wants to know: where it is gone, the ranks go on without it.
  store->client->Set(JoinedKey(environment.rank), "", kLinger).IgnoreError();
  return world;
}

// As the others are told of it.
absl::Status DidNotStart(int rank, const absl::Status& why) {
  return UserError(
      ExitCode::kRankFailed,
      {.key = StrCat("rank ", rank), .message = StrCat("it could not start: ", std::string(why.message()))});
}

}  // namespace

void TellOthers(const RankEnvironment& environment, const absl::Status& why,
                const std::function<void()>& on_wait) {
  constexpr absl::Duration kMoment = absl::Seconds(1), kPoll = absl::Milliseconds(20);
  if (environment.world_size == 1) return;
  const absl::Time begin = absl::Now();
  bool said = false;
  const auto say_once = [&] {
    if (!std::exchange(said, true)) on_wait();
  };
  const auto open = [&](absl::Duration timeout) {
    return OpenStore({.environment = environment, .start_timeout = timeout});
  };
  absl::StatusOr<std::shared_ptr<ServedStore>> opened = open(kMoment);
  if (ExitCodeOf(opened.status()) == static_cast<int>(ExitCode::kTimeout)) {
    say_once();
    opened = open(kPatience - kMoment);
  }
  if (!opened.ok()) return;
  (*opened)->client->TellTrouble(DidNotStart(environment.rank, why));
  const TcpStoreServer* const server = (*opened)->server.get();
  if (server == nullptr) return;
  // Those that came may have died since.
  const auto came = [&](int rank) {
    return server->Has(StrCat(environment.prefix, tcp_store::kPresent, rank));
  };
  const auto all_came = [&] {
    for (int rank = 1; rank < environment.world_size; ++rank) {
      if (!came(rank)) return false;
    }
    return true;
  };
  while (!all_came() && absl::Now() - begin < kPatience) {
    if (absl::Now() - begin > kMoment) say_once();
    absl::SleepFor(kPoll);
  }
}

absl::StatusOr<std::string> RecipeOfFirstRank(const JoinOptions& options) {
  const RankEnvironment& environment = options.environment;
  FTUNE_ASSIGN_OR_RETURN(
      const std::unique_ptr<TcpStore> store,
      TcpStore::Connect(environment.address, environment.port, environment.prefix, options.start_timeout));
  FTUNE_ASSIGN_OR_RETURN(const std::string text, store->Get(KeyOf(0), options.start_timeout));
  const std::optional<Introduction> first = Introduction::Decode(text);
  if (!first) return OtherVersion(0);
  return first->recipe;
}

absl::StatusOr<World> JoinWorld(const JoinOptions& options) {
  if (options.environment.world_size == 1) return World{MakeSingleCommunicator(), {0}};
  const absl::Time deadline = absl::Now() + options.start_timeout;
  FTUNE_ASSIGN_OR_RETURN(const std::shared_ptr<ServedStore> store, OpenStore(options));
  absl::StatusOr<World> world = Join(options, store, deadline);
  if (!world.ok()) store->client->TellTrouble(world.status());
  return world;
}

std::string JoinedKey(int rank) { return StrCat("joined/", rank); }

}  // namespace ftune
