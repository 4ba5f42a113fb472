// One record of each rank, on all ranks.
#pragma once

#include <type_traits>
#include <vector>

#include "parallel/comm/communicator.h"

namespace ftune {

// To be run by all ranks of a group alike. The table gets a record for each rank, all of them this rank's
// until the call is done; it must stay where it is that long.
template <class Record>
Call GatherRecords(const Communicator& group, const Record& own, Stream stream, std::vector<Record>& table) {
  // Whole numbers of eight bytes, on every rank the same ones.
  static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) % sizeof(int64_t) == 0);
  constexpr int64_t kWords = sizeof(Record) / sizeof(int64_t);
  table.assign(group.size(), own);
  const auto buffer = [&](Record* at, int64_t records) {
    return Buffer{reinterpret_cast<std::byte*>(at), records * kWords, DType::kI64, stream};
  };
  return Call::AllGather(buffer(&table[group.rank()], 1), buffer(table.data(), group.size()),
                         std::vector<int64_t>(group.size(), kWords));
}

}  // namespace ftune
