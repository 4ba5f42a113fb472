// Tokens <0x00> … <0xFF>, which stand for a byte of text that has no token of its own.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ftune {

class Vocabulary;

// By byte; -1 where the vocabulary has none. Hexadecimal digits are in upper case.
std::array<int32_t, 256> FindByteTokens(const Vocabulary& vocabulary);

// The byte of a token <0x0A> (digits in either case), -1 for other tokens.
int ByteOfToken(std::string_view token);

}  // namespace ftune
