#include "cmd/report/tensorboard/tf_record.h"

#include <array>
#include <bit>
#include <cstring>

namespace ftune::tensorboard {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint32_t kPolynomial = 0x82F63B78;  // of the reflected form

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}

// A checksum of bytes among which there are checksums says little, so they are stored changed.
uint32_t Masked(uint32_t crc) { return std::rotr(crc, 15) + 0xA282EAD8; }

template <class Integer>
void AppendLittleEndian(std::string& to, Integer value) {
  char bytes[sizeof(value)];
  std::memcpy(bytes, &value, sizeof(value));
  to.append(bytes, sizeof(value));
}

}  // namespace

uint32_t Crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeTable();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

std::string TfRecord(std::string_view bytes) {
  std::string record;
  AppendLittleEndian(record, static_cast<uint64_t>(bytes.size()));
  AppendLittleEndian(record, Masked(Crc32c(record)));
  record.append(bytes);
  AppendLittleEndian(record, Masked(Crc32c(bytes)));
  return record;
}

}  // namespace ftune::tensorboard
