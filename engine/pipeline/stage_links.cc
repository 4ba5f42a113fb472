#include "engine/pipeline/stage_links.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "engine/shard/arena.h"

namespace ftune {
namespace {

// Pairs of ranks in ascending order: every rank makes its groups in the same order.
std::set<std::pair<int, int>> NeighboursOf(const ScheduleShape& shape) {
  std::set<std::pair<int, int>> pairs;
  for (int stage = 0; stage + 1 < shape.stages(); ++stage) {
    const auto pair = std::minmax({shape.RankOf(stage), shape.RankOf(stage + 1)});
    if (pair.first != pair.second) pairs.insert(pair);
  }
  return pairs;
}

}  // namespace

absl::StatusOr<StageLinks> StageLinks::Create(Communicator& pipeline, const ScheduleShape& shape) {
  StageLinks links;
  for (const auto& [low, high] : NeighboursOf(shape)) {
    if (pipeline.rank() != low && pipeline.rank() != high) continue;
    const bool is_low = pipeline.rank() == low;
    const int other = is_low ? high : low;
    for (const bool upwards : {true, false}) {
      FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> group, pipeline.Split({low, high}));
      std::map<int, Link>& links_of = upwards == is_low ? links.to_ : links.from_;
      links_of[other] = {.group = std::move(group), .other = is_low ? 1 : 0};
    }
  }
  return links;
}

Pending StageLinks::Send(Stream stream, const Tensor& tensor, int to) {
  Link& link = to_.at(to);
  return link.group->Start(Call::Send(BufferOf(stream, tensor), link.other));
}

Pending StageLinks::Receive(Stream stream, const Tensor& tensor, int from) {
  Link& link = from_.at(from);
  return link.group->Start(Call::Receive(BufferOf(stream, tensor), link.other));
}

absl::Status StageLinks::status() const {
  for (const auto* links : {&to_, &from_}) {
    for (const auto& [rank, link] : *links) FTUNE_RETURN_IF_ERROR(link.group->status());
  }
  return absl::OkStatus();
}

CommTraffic StageLinks::traffic() const {
  CommTraffic total;
  for (const auto* links : {&to_, &from_}) {
    for (const auto& [rank, link] : *links) total += link.group->traffic();
  }
  return total;
}

}  // namespace ftune
