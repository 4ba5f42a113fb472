#include "data/tokenizer/aligned_text.h"

#include "data/tokenizer/utf8.h"

namespace ftune {

void AlignedBuffer::Clear(int64_t base) {
  text_.clear();
  spans_.clear();
  base_ = base;
}

void AlignedBuffer::Reserve(size_t bytes) {
  text_.reserve(bytes);
  spans_.reserve(bytes);
}

void AlignedBuffer::Copy(const AlignedView& from, size_t begin, size_t end) {
  text_.append(from.text, begin, end - begin);
  if (from.spans != nullptr) {
    spans_.insert(spans_.end(), from.spans + begin, from.spans + end);
    return;
  }
  for (size_t i = begin; i < end; ++i) spans_.push_back(from.Span(i, i + 1));
}

void AlignedBuffer::Append(std::string_view bytes, TextSpan span) {
  text_.append(bytes);
  spans_.insert(spans_.end(), bytes.size(), span);
}

AlignedView AsUtf8(std::string_view text, AlignedBuffer& storage) {
  const AlignedView original{text};
  size_t bad;
  size_t valid = ValidUtf8Prefix(text, 0, &bad);
  if (bad == 0) return original;
  storage.Clear(0);
  size_t position = 0;
  while (true) {
    storage.Copy(original, position, position + valid);
    position += valid;
    if (bad == 0) return storage.view();
    storage.Append(kReplacementUtf8, original.Span(position, position + bad));
    position += bad;
    valid = ValidUtf8Prefix(text, position, &bad);
  }
}

}  // namespace ftune
