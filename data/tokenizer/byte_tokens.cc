#include "data/tokenizer/byte_tokens.h"

#include <charconv>
#include <string>

#include "data/tokenizer/vocabulary.h"

namespace ftune {

std::array<int32_t, 256> FindByteTokens(const Vocabulary& vocabulary) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::array<int32_t, 256> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + '>';
    tokens[byte] = vocabulary.Find(text).value_or(-1);
  }
  return tokens;
}

int ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = -1;
  const auto result = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
  return result.ec == std::errc() && result.ptr == token.data() + 5 ? byte : -1;
}

}  // namespace ftune
