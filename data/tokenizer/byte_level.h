// GPT-2's byte-level alphabet: each byte has a printable character, so that vocabularies of bytes can be
// written as text. Bytes 0x21–0x7E, 0xA1–0xAC and 0xAE–0xFF are the character of that number; the other 68
// are, in order, U+0100, U+0101, …
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ftune {

char32_t ByteLevelChar(uint8_t byte);
// The byte that `c` stands for; -1 if none.
int ByteOfByteLevelChar(char32_t c);

// Bytes to byte-level text.
std::string ToByteLevel(std::string_view bytes);
// Byte-level text (valid UTF-8) to bytes; nothing if a character stands for no byte.
std::optional<std::string> FromByteLevel(std::string_view text);

}  // namespace ftune
