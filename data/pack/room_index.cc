#include "data/pack/room_index.h"

#include <bit>
#include <cstddef>

namespace ftune {

RoomIndex::RoomIndex(int64_t capacity) : first_(static_cast<size_t>(capacity) + 1, kNone) {
  size_t bits = first_.size();
  do {
    bits = (bits + 63) / 64;
    levels_.emplace_back(bits, 0);
  } while (bits > 1);
}

void RoomIndex::Add(int64_t room, uint32_t pack) {
  if (pack >= next_.size()) next_.resize(pack + size_t{1}, kNone);
  next_[pack] = first_[room];
  first_[room] = pack;
  if (next_[pack] == kNone) Set(room);
}

bool RoomIndex::TakeBest(int64_t room, int64_t* found, uint32_t* pack) {
  *found = FirstFrom(room);
  if (*found < 0) return false;
  *pack = first_[*found];
  first_[*found] = next_[*pack];
  if (first_[*found] == kNone) Unset(*found);
  return true;
}

void RoomIndex::Clear() {
  for (int64_t room = FirstFrom(0); room >= 0; room = FirstFrom(room)) {
    first_[room] = kNone;
    Unset(room);
  }
  next_.clear();
}

void RoomIndex::Set(int64_t room) {
  auto bit = static_cast<size_t>(room);
  for (std::vector<uint64_t>& level : levels_) {
    level[bit / 64] |= uint64_t{1} << (bit % 64);
    bit /= 64;
  }
}

void RoomIndex::Unset(int64_t room) {
  auto bit = static_cast<size_t>(room);
  for (std::vector<uint64_t>& level : levels_) {
    level[bit / 64] &= ~(uint64_t{1} << (bit % 64));
    if (level[bit / 64] != 0) return;
    bit /= 64;
  }
}

int64_t RoomIndex::FirstFrom(int64_t room) const {
  // Up, until a level has a bit at or behind ours; from there down to the first room below it.
  auto bit = static_cast<size_t>(room);
  for (size_t level = 0; level < levels_.size(); ++level) {
    if (bit / 64 >= levels_[level].size()) return -1;
    const uint64_t rest = levels_[level][bit / 64] >> (bit % 64) << (bit % 64);
    if (rest == 0) {
      bit = bit / 64 + 1;
      continue;
    }
    bit = bit / 64 * 64 + static_cast<size_t>(std::countr_zero(rest));
    while (level-- > 0) bit = bit * 64 + static_cast<size_t>(std::countr_zero(levels_[level][bit]));
    return static_cast<int64_t>(bit);
  }
  return -1;
}

}  // namespace ftune
