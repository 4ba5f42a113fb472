// Code points of UTF-8 text, classified and mapped as Python's str does. Malformed bytes count as one code
// point each, so that no input can lead out of bounds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ftune::jinja {

// Decodes the code point at s[pos] (pos < s.size()) and returns the offset behind it. A malformed byte gives
// U+FFFD.
size_t NextCodePoint(std::string_view s, size_t pos, char32_t* code_point);
void AppendUtf8(char32_t code_point, std::string* out);

size_t CountCodePoints(std::string_view s);
// Byte offset of code point `index`; s.size() where there are fewer.
size_t OffsetOfCodePoint(std::string_view s, size_t index);

bool IsAscii(std::string_view s);
bool IsSpace(char32_t c);      // str.isspace, and \s of Python's re
bool IsPrintable(char32_t c);  // str.isprintable
bool IsAlpha(char32_t c);
bool IsDecimal(char32_t c);
bool IsUpper(char32_t c);
bool IsLower(char32_t c);
bool IsNameStart(char32_t c);
bool IsNamePart(char32_t c);

std::string ToUpper(std::string_view s);
std::string ToLower(std::string_view s);
std::string FoldCase(std::string_view s);       // str.casefold
std::string ToTitle(std::string_view s);        // str.title: each run of letters
std::string ToCapitalized(std::string_view s);  // str.capitalize: first letter of the text

// First occurrence of `needle` in `s` at or after `from` in linear time; npos if none.
size_t FindText(std::string_view s, std::string_view needle, size_t from = 0);
size_t FindLastText(std::string_view s, std::string_view needle);

}  // namespace ftune::jinja
