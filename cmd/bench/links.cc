#include "cmd/bench/links.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/error.h"
#include "cmd/bench/stopwatch.h"
#include "parallel/comm/gloo_transport.h"
#include "parallel/launch/tcp_store.h"
#include "parallel/launch/tcp_store_server.h"

namespace ftune {
namespace {

constexpr int64_t kSmallElements = 64;
constexpr int64_t kLargeElements = int64_t{4} << 20;  // 16 MiB: a bucket of gradients, a block's weights

// Seconds of the three collectives in a row, each of so many elements in all.
absl::StatusOr<double> SecondsOfThree(Communicator& group, int64_t elements) {
  const std::vector<int64_t> counts = EvenCounts(elements, group.size());
  const int64_t mine = counts[group.rank()];
  FTUNE_ASSIGN_OR_RETURN(const SharedBytes whole, group.Allocate(elements * 4));
  FTUNE_ASSIGN_OR_RETURN(const SharedBytes share, group.Allocate(std::max<int64_t>(1, mine) * 4));
  std::memset(whole.data.get(), 0, static_cast<size_t>(elements * 4));
  std::memset(share.data.get(), 0, static_cast<size_t>(mine * 4));
  const Buffer all = {whole.data.get(), elements, DType::kF32, {}};
  const Buffer part = {share.data.get(), mine, DType::kF32, {}};
  double seconds = 0.0;
  for (const Call& call :
       {Call::AllReduce(all), Call::ReduceScatter(all, part, counts), Call::AllGather(part, all, counts)}) {
    FTUNE_ASSIGN_OR_RETURN(const double of_call, SecondsOfCall(group, call));
    seconds += of_call;
  }
  return seconds;
}

}  // namespace

absl::StatusOr<LinkModel> MeasureCollectives(Communicator& group) {
  const double others = group.size() - 1;
  FTUNE_ASSIGN_OR_RETURN(const double small, SecondsOfThree(group, kSmallElements));
  FTUNE_ASSIGN_OR_RETURN(const double large, SecondsOfThree(group, kLargeElements));
  // A ring's all-reduce has 2 (n - 1) hops, in which 2 (n - 1) / n of the bytes pass; the others half of
  // both.
  const double hops = 4 * others;
  const double bytes = 4 * others / group.size() * static_cast<double>(kLargeElements) * 4;
  return LinkModel{.latency = small / hops, .bandwidth = bytes / std::max(large - small, 1e-9)};
}

absl::StatusOr<LinkModel> MeasureLoopback(Communicator& ranks) {
  constexpr char kAddress[] = "127.0.0.1";
  constexpr char kPrefix[] = "bench/";
  const absl::Duration patience = absl::Minutes(1);
  std::unique_ptr<TcpStoreServer> server;
  if (ranks.rank() == 0) {
    FTUNE_ASSIGN_OR_RETURN(server, TcpStoreServer::Start(kAddress, 0, kPrefix));
  }
  FTUNE_ASSIGN_OR_RETURN(const int64_t port, ranks.AllReduce(int64_t{server ? server->port() : 0}));
  LinkModel link;
  if (ranks.rank() < 2) {
    FTUNE_ASSIGN_OR_RETURN(std::shared_ptr<TcpStore> store,
                           TcpStore::Connect(kAddress, static_cast<int>(port), kPrefix, patience));
    FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport, JoinGloo({.rank = ranks.rank(),
                                                                           .size = 2,
                                                                           .store = store,
                                                                           .prefix = "ranks/",
                                                                           .address = kAddress,
                                                                           .timeout = patience}));
    Communicator group(std::move(transport));
    FTUNE_ASSIGN_OR_RETURN(link, MeasureCollectives(group));
  }
  FTUNE_RETURN_IF_ERROR(ranks.Run(Call::Barrier()));  // the server outlives the group
  return link;
}

}  // namespace ftune
