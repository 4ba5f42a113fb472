// Text together with the place in the original text that each of its bytes stems from: normalisation changes
// text, but tokens are reported as bytes of what the user wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace ftune {

// Does not own. Text that was not changed needs no table.
struct AlignedView {
  std::string_view text;
  const TextSpan* spans = nullptr;  // one a byte; null: byte i of text is byte base + i of the original
  int64_t base = 0;                 // where in the original the text starts

  // The bytes of the original that bytes [begin, end) stem from; an empty range gives a point.
  TextSpan Span(size_t begin, size_t end) const {
    if (spans == nullptr) return {base + static_cast<int64_t>(begin), base + static_cast<int64_t>(end)};
    if (begin < end) return {spans[begin].begin, spans[end - 1].end};
    const int64_t point = begin < text.size() ? spans[begin].begin : begin > 0 ? spans[begin - 1].end : base;
    return {point, point};
  }
  AlignedView Slice(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin), spans == nullptr ? nullptr : spans + begin,
            Span(begin, begin).begin};
  }
};

// Builds a changed text.
class AlignedBuffer {
 public:
  void Clear(int64_t base);
  void Reserve(size_t bytes);
  // Bytes [begin, end) of `from`, unchanged.
  void Copy(const AlignedView& from, size_t begin, size_t end);
  // Bytes that together stem from `span` (empty: from nothing).
  void Append(std::string_view bytes, TextSpan span);

  // Valid until the buffer changes.
  AlignedView view() const { return {text_, spans_.data(), base_}; }

 private:
  std::string text_;
  std::vector<TextSpan> spans_;
  int64_t base_ = 0;
};

// `text` as it is if it is UTF-8; else built in `storage`, with U+FFFD for each maximal piece that is not.
AlignedView AsUtf8(std::string_view text, AlignedBuffer& storage);

}  // namespace ftune
