// Open packs by the room they have left, for best fit.
#pragma once

#include <cstdint>
#include <vector>

namespace ftune {

// Packs with rooms from 0 to `capacity`. Adding and taking cost O(log capacity) to the base 64: the rooms
// that some pack has are bits of words, with a bit for each word that is not empty one level up, and so on.
class RoomIndex {
 public:
  explicit RoomIndex(int64_t capacity);

  void Add(int64_t room, uint32_t pack);
  // Takes out a pack with the least room that is at least `room`, and says how much it is. False: there is
  // none.
  bool TakeBest(int64_t room, int64_t* found, uint32_t* pack);
  void Clear();

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  void Set(int64_t room);
  void Unset(int64_t room);
  int64_t FirstFrom(int64_t room) const;  // -1: none

  std::vector<std::vector<uint64_t>> levels_;  // [0]: a bit for each room
  std::vector<uint32_t> first_;                // pack of each room
  std::vector<uint32_t> next_;                 // of each pack: the next with the same room
};

}  // namespace ftune
