#include "data/pack/slack_packer.h"

#include <algorithm>
#include <numeric>

namespace ftune {

void SlackPacker::Sort(std::span<const int32_t> lengths) {
  by_length_.resize(lengths.size());
  std::iota(by_length_.begin(), by_length_.end(), 0u);
  std::stable_sort(by_length_.begin(), by_length_.end(),
                   [&](uint32_t a, uint32_t b) { return lengths[a] > lengths[b]; });
  kinds_.clear();
  for (uint32_t i = 0; i < by_length_.size(); ++i) {
    const int64_t length = lengths[by_length_[i]];
    if (kinds_.empty() || kinds_.back().length != length) kinds_.push_back({length, i, i});
    ++kinds_.back().end;
  }
}

void SlackPacker::RemoveEmptyKinds() {
  std::erase_if(kinds_, [](const Kind& kind) { return kind.left() == 0; });
}

void SlackPacker::Search(int64_t room, int64_t max_turns) {
  chosen_.clear();
  best_.clear();
  int64_t least = room + 1;
  auto kind = kinds_.begin();
  for (int64_t turns = 0;;) {
    kind = std::lower_bound(kind, kinds_.end(), room,
                            [](const Kind& longer, int64_t most) { return longer.length > most; });
    while (kind != kinds_.end() && kind->left() == 0) ++kind;
    if (kind != kinds_.end()) {
      --kind->end;
      room -= kind->length;
      chosen_.push_back(static_cast<uint32_t>(kind - kinds_.begin()));
      continue;
    }
    if (room < least) {
      least = room;
      best_ = chosen_;
    }
    if (least == 0 || chosen_.empty() || turns++ == max_turns) break;
    kind = kinds_.begin() + chosen_.back();
    chosen_.pop_back();
    ++kind->end;
    room += kind->length;
    ++kind;
  }
  for (const uint32_t i : chosen_) ++kinds_[i].end;
}

int64_t SlackPacker::Pack(std::span<const int32_t> lengths, int64_t max_turns,
                          std::vector<uint32_t>& pack_of) {
  Sort(lengths);
  pack_of.resize(lengths.size());
  uint32_t packs = 0;
  const auto take = [&](Kind& kind) { pack_of[by_length_[kind.next++]] = packs; };
  while (!kinds_.empty()) {
    const int64_t room = capacity_ - kinds_.front().length;
    take(kinds_.front());
    Search(room, max_turns);
    for (const uint32_t kind : best_) take(kinds_[kind]);
    RemoveEmptyKinds();
    ++packs;
  }
  return packs;
}

}  // namespace ftune
