#include "data/tokenizer/byte_level.h"

#include <array>

#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

constexpr int kChars = 0x100 + 68;

struct Tables {
  std::array<char32_t, 256> to_char{};
  std::array<int16_t, kChars> to_byte{};
};

constexpr Tables MakeTables() {
  Tables tables;
  for (int16_t& byte : tables.to_byte) byte = -1;
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
    const char32_t c = printable ? static_cast<char32_t>(byte) : next++;
    tables.to_char[byte] = c;
    tables.to_byte[c] = static_cast<int16_t>(byte);
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

char32_t ByteLevelChar(uint8_t byte) { return kTables.to_char[byte]; }

int ByteOfByteLevelChar(char32_t c) { return c < kChars ? kTables.to_byte[c] : -1; }

std::string ToByteLevel(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) AppendUtf8(text, ByteLevelChar(static_cast<uint8_t>(byte)));
  return text;
}

std::optional<std::string> FromByteLevel(std::string_view text) {
  std::string bytes;
  for (size_t position = 0; position < text.size();) {
    const int byte = ByteOfByteLevelChar(NextChar(text, &position));
    if (byte < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

}  // namespace ftune
