// A shard file: the samples of consecutive rows of one entry.
//
//   ShardHeader     64 bytes
//   tokens          4 bytes each (StoredToken), then zeros up to a multiple of 8 bytes
//   samples         32 bytes each (SampleRecord), in order of rows
//   dropped rows    a line of JSON each (DroppedRow), `row` counted within the shard
//   report          JSON (DataReport) of the shard's rows, then zeros up to a multiple of 8 bytes
//   ShardFooter     48 bytes
//
// All numbers are little-endian. The bytes are a function of the rows, the key and the index alone. The
// checksum is the XXH3-64 of all that stands before it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string>

namespace ftune {

static_assert(std::endian::native == std::endian::little, "shard files are mapped as they are");

inline constexpr uint32_t kShardVersion = 3;
inline constexpr std::array<char, 8> kShardBegin = {'f', 't', 'u', 'n', 'e', 't', 'o', 'k'};
inline constexpr std::array<char, 8> kShardEnd = {'k', 'o', 't', 'e', 'n', 'u', 't', 'f'};

// Which shard of which store; a file of another one is never taken for it.
struct ShardId {
  std::array<uint8_t, 16> key = {};  // of the store
  uint32_t index = 0;                // in the store, from 0
};

struct ShardHeader {
  std::array<char, 8> magic = kShardBegin;
  uint32_t version = kShardVersion;
  uint32_t index = 0;
  std::array<uint8_t, 16> key = {};
  uint32_t entry = 0;  // of the data section's list
  std::array<uint8_t, 28> zeros = {};
};
static_assert(sizeof(ShardHeader) == 64);

struct ShardFooter {
  uint64_t tokens = 0;
  uint64_t samples = 0;
  uint64_t dropped_bytes = 0;
  uint64_t report_bytes = 0;
  uint64_t checksum = 0;
  std::array<char, 8> magic = kShardEnd;
};
static_assert(sizeof(ShardFooter) == 48);

constexpr uint64_t PadTo8(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

std::string ShardName(uint32_t index);  // shard-00000042.tokens

}  // namespace ftune
