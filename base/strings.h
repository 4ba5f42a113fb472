// Building text from pieces. (Debian's Abseil is built with a string_view type of its own, which
// std::string_view does not convert to; so its StrCat cannot be used with the standard type.)
#pragma once

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace ftune {
namespace internal {

inline void AppendPiece(std::string& to, std::string_view piece) { to.append(piece); }
inline void AppendPiece(std::string& to, char piece) { to.push_back(piece); }
// Integers in decimal; floating point in the shortest form that reads back equal.
template <typename Number>
requires(std::is_arithmetic_v<Number> && !std::same_as<Number, char>) void AppendPiece(std::string& to,
                                                                                       Number number) {
  if constexpr (std::same_as<Number, bool>) {
    to.append(number ? "true" : "false");
  } else {
    char buffer[64];
    to.append(buffer, std::to_chars(buffer, buffer + sizeof(buffer), number).ptr);
  }
}

}  // namespace internal

template <typename... Pieces>
void StrAppend(std::string& to, const Pieces&... pieces) {
  (internal::AppendPiece(to, pieces), ...);
}

// Strings, characters, integers and floating-point numbers, one after another.
template <typename... Pieces>
std::string StrCat(const Pieces&... pieces) {
  std::string text;
  StrAppend(text, pieces...);
  return text;
}

template <typename Range>
std::string StrJoin(const Range& range, std::string_view separator) {
  std::string text;
  bool first = true;
  for (const auto& item : range) {
    if (!first) text.append(separator);
    first = false;
    StrAppend(text, item);
  }
  return text;
}

// ASCII only.
inline std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace ftune
