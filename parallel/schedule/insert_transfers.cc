#include "parallel/schedule/insert_transfers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "parallel/schedule/walk.h"

namespace ftune {
namespace {

using enum ActionKind;

// What leaves the rank when a compute action is done.
struct Transfer {
  Action send;
  Action receive;
  Action consumer;
  int receiver = 0;
};

class TransferFinder {
 public:
  explicit TransferFinder(const Schedule& schedule) : shape_(schedule.shape), listed_(schedule.shape, false) {
    for (const std::vector<Action>& actions : schedule.ranks) {
      for (const Action& action : actions) listed_[action] = true;
    }
  }

  std::optional<Transfer> Find(const Action& made) const {
    const auto [kind, stage, microbatch] = made;
    const bool forward = kind == kForward;
    if (!forward && !MakesInputGradient(kind)) return std::nullopt;
    const int to = forward ? stage + 1 : stage - 1;
    if (to < 0 || to >= shape_.stages() || shape_.RankOf(to) == shape_.RankOf(stage)) return std::nullopt;
    const ActionKind send = forward ? kSendActivation : kSendGradient;
    const ActionKind receive = forward ? kReceiveActivation : kReceiveGradient;
    for (const ActionKind consumer : {kForward, kBackward, kBackwardInput}) {
      const Action action{consumer, to, microbatch};
      if ((consumer == kForward) != forward || !listed_[action]) continue;
      return Transfer{{send, stage, microbatch}, {receive, to, microbatch}, action, shape_.RankOf(to)};
    }
    return std::nullopt;
  }

 private:
  const ScheduleShape shape_;
  ActionTable<bool> listed_;
};

// Receives of a rank, by the compute action (its number in the list) before which they are posted.
using Posts = std::multimap<int, Action>;

}  // namespace

Schedule InsertTransfers(Schedule schedule) {
  const TransferFinder finder(schedule);
  ActionTable<int> compute_number(schedule.shape, 0);
  std::map<std::pair<int, int>, std::vector<Transfer>> links;
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    int number = 0;
    for (const Action& action : schedule.ranks[rank]) {
      if (!IsCompute(action.kind)) continue;
      compute_number[action] = number++;
      const std::optional<Transfer> transfer = finder.Find(action);
      if (transfer) links[{rank, transfer->receiver}].push_back(*transfer);
    }
  }
  std::vector<Posts> posts(schedule.ranks.size());
  for (const auto& [link, transfers] : links) {
    std::vector<int> before(transfers.size());
    for (size_t i = 0; i < transfers.size(); ++i) {
      before[i] = std::max(0, compute_number[transfers[i].consumer] - 1);
    }
    for (size_t i = before.size(); i-- > 1;) before[i - 1] = std::min(before[i - 1], before[i]);
    for (size_t i = 0; i < transfers.size(); ++i) {
      posts[link.second].emplace(before[i], transfers[i].receive);
    }
  }
  for (size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const std::vector<Action> actions = std::exchange(schedule.ranks[rank], {});
    std::vector<Action>& with = schedule.ranks[rank];
    int number = 0;
    std::optional<Action> send;
    for (size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      if (send && action.kind != kReduce) with.push_back(*std::exchange(send, std::nullopt));
      // Before the gather of the action's unit too.
      const bool gathers = action.kind == kGather && i + 1 < actions.size();
      if (IsCompute(gathers ? actions[i + 1].kind : action.kind)) {
        const auto [first, last] = posts[rank].equal_range(number);
        for (auto post = first; post != last; ++post) with.push_back(post->second);
        posts[rank].erase(first, last);
      }
      with.push_back(action);
      if (!IsCompute(action.kind)) continue;
      ++number;
      if (const std::optional<Transfer> transfer = finder.Find(action)) send = transfer->send;
    }
    if (send) with.push_back(*send);
  }
  return schedule;
}

}  // namespace ftune
