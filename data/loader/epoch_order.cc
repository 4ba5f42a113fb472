#include "data/loader/epoch_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"

namespace ftune {
namespace {

// Purposes of the draws, kept apart from each other and, by their high bits, from those of other layers.
constexpr uint64_t kShufflePurpose = 0x6f72646572000000;  // "order": + epoch
constexpr uint64_t kTurnsPurpose = 0x7475726e73000000;    // "turns": + entry

// Adds the samples of one entry that take part in the epoch, copies included.
void AddEntry(const std::vector<int64_t>& samples, double weight, int64_t epoch, uint64_t seed,
              uint64_t purpose, std::vector<int64_t>& chosen) {
  const auto size = static_cast<int64_t>(samples.size());
  if (size == 0 || weight == 0) return;
  const int64_t wanted = std::max<int64_t>(1, std::llround(weight * static_cast<double>(size)));
  for (int64_t copy = 0; copy < wanted / size; ++copy) {
    chosen.insert(chosen.end(), samples.begin(), samples.end());
  }
  const int64_t rest = wanted % size;
  if (rest == 0) return;
  // One permutation for all epochs; each goes on where the one before stopped.
  const std::vector<int64_t> turns = Permutation(size, seed, purpose);
  for (int64_t i = 0; i < rest; ++i) chosen.push_back(samples[turns[(epoch * rest + i) % size]]);
}

}  // namespace

std::vector<int64_t> FixedOrder(const Dataset& dataset) {
  std::vector<int64_t> order(dataset.samples.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int64_t> ShuffledOrder(const Dataset& dataset, uint64_t seed, int64_t epoch) {
  std::vector<std::vector<int64_t>> by_entry(dataset.mix.size());
  for (int64_t i = 0; i < dataset.size(); ++i) {
    by_entry[static_cast<size_t>(dataset.info(i).entry)].push_back(i);
  }
  std::vector<int64_t> chosen;
  for (size_t entry = 0; entry < by_entry.size(); ++entry) {
    AddEntry(by_entry[entry], dataset.mix[entry].weight, epoch, seed, kTurnsPurpose + entry, chosen);
  }
  std::vector<int64_t> order;
  order.reserve(chosen.size());
  for (const int64_t i : Permutation(static_cast<int64_t>(chosen.size()), seed,
                                     kShufflePurpose + static_cast<uint64_t>(epoch))) {
    order.push_back(chosen[i]);
  }
  return order;
}

}  // namespace ftune
