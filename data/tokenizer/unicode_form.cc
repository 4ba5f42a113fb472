// Unicode normal forms (UAX 15), by ICU, with the place of each character kept.
#include <unicode/normalizer2.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <vector>

#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

constexpr size_t kLongSegment = 256;  // bytes; no character of real text has so many marks

bool IsAscii(std::string_view text) {
  size_t position = 0;
  while (position < text.size() && static_cast<unsigned char>(text[position]) < 0x80) ++position;
  return position == text.size();
}

class UnicodeFormNormalizer : public Normalizer {
 public:
  // ICU owns the instance, for ever.
  explicit UnicodeFormNormalizer(const icu::Normalizer2* form) : form_(form) {}

  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    if (IsAscii(text.text)) return false;
    if (IsNormalized(text.text)) return false;
    size_t begin = 0;
    while (begin < text.text.size()) {
      const size_t end = SegmentEnd(text.text, begin);
      AppendSegment(text.Slice(begin, end), out);
      begin = end;
    }
    return true;
  }

 private:
  // False also where that would take too long to find out.
  bool IsNormalized(std::string_view text) const {
    if (text.size() > INT32_MAX || HasLongSegment(text)) return false;
    UErrorCode status = U_ZERO_ERROR;
    const icu::StringPiece all(text.data(), static_cast<int32_t>(text.size()));
    return form_->isNormalizedUTF8(all, status) && U_SUCCESS(status);
  }

  // Whether there is a segment of 2 · kLongSegment bytes or more: one without an end in some window.
  bool HasLongSegment(std::string_view text) const {
    for (size_t window = 0; window + kLongSegment <= text.size(); window += kLongSegment) {
      size_t position = window;
      while (position < text.size() && (static_cast<uint8_t>(text[position]) & 0xC0) == 0x80) ++position;
      bool boundary = false;
      while (!boundary && position < window + kLongSegment)
        boundary = form_->hasBoundaryBefore(static_cast<UChar32>(NextChar(text, &position)));
      if (!boundary) return true;
    }
    return false;
  }

  // The next place behind `begin` over which normalisation does not reach.
  size_t SegmentEnd(std::string_view text, size_t begin) const {
    size_t position = begin;
    NextChar(text, &position);
    while (position < text.size()) {
      size_t next = position;
      if (form_->hasBoundaryBefore(static_cast<UChar32>(NextChar(text, &next)))) break;
      position = next;
    }
    return position;
  }

  // Characters at the ends of the segment that stay as they are keep their places; those between stem from
  // all between.
  void AppendSegment(const AlignedView& segment, AlignedBuffer& out) const {
    const std::string_view from = segment.text;
    // ASCII alone is in every form. ICU counts in 32 bits, which no segment of real text needs.
    if (from.size() == 1 || from.size() > INT32_MAX) return out.Copy(segment, 0, from.size());
    UErrorCode status = U_ZERO_ERROR;
    auto source =
        icu::UnicodeString::fromUTF8(icu::StringPiece(from.data(), static_cast<int32_t>(from.size())));
    if (from.size() > kLongSegment) source = InCanonicalOrder(source);
    std::string to;
    form_->normalize(source, status).toUTF8String(to);
    if (U_FAILURE(status) || to == from) return out.Copy(segment, 0, from.size());
    size_t same_front = 0, same_back = 0;
    const size_t most = std::min(from.size(), to.size());
    while (same_front < most) {
      const size_t length = Utf8Length(from[same_front]);
      if (same_front + length > most || from.substr(same_front, length) != to.substr(same_front, length))
        break;
      same_front += length;
    }
    while (same_back < most - same_front) {
      const size_t start = PreviousBoundary(from, from.size() - same_back);
      const size_t length = from.size() - same_back - start;
      if (same_back + length > most - same_front ||
          from.substr(start, length) != std::string_view(to).substr(to.size() - same_back - length, length)) {
        break;
      }
      same_back += length;
    }
    out.Copy(segment, 0, same_front);
    out.Append(std::string_view(to).substr(same_front, to.size() - same_front - same_back),
               segment.Span(same_front, from.size() - same_back));
    out.Copy(segment, from.size() - same_back, from.size());
  }

  // The text decomposed, its marks in order. ICU's own ordering takes time that grows with the square of the
  // number of marks in a row; it has nothing left to do on what this gives, and the form is the same.
  icu::UnicodeString InCanonicalOrder(const icu::UnicodeString& text) const {
    struct Mark {
      UChar32 character;
      uint8_t combining_class;
    };
    std::vector<Mark> marks;  // in a row
    icu::UnicodeString ordered;
    const auto flush = [&] {
      std::stable_sort(marks.begin(), marks.end(), [](const Mark& left, const Mark& right) {
        return left.combining_class < right.combining_class;
      });
      for (const Mark& mark : marks) ordered.append(mark.character);
      marks.clear();
    };
    const auto append = [&](UChar32 character) {
      const uint8_t combining_class = form_->getCombiningClass(character);
      if (combining_class == 0) flush();
      marks.push_back({character, combining_class});
      if (combining_class == 0) flush();
    };
    icu::UnicodeString parts;
    for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
      const UChar32 character = text.char32At(i);
      if (!form_->getDecomposition(character, parts)) parts.setTo(character);
      for (int32_t k = 0; k < parts.length(); k = parts.moveIndex32(k, 1)) append(parts.char32At(k));
    }
    flush();
    return ordered;
  }

  const icu::Normalizer2* form_;
};

}  // namespace

std::unique_ptr<Normalizer> MakeUnicodeForm(UnicodeForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* instance = nullptr;
  switch (form) {
    case UnicodeForm::kNfc:
      instance = icu::Normalizer2::getNFCInstance(status);
      break;
    case UnicodeForm::kNfd:
      instance = icu::Normalizer2::getNFDInstance(status);
      break;
    case UnicodeForm::kNfkc:
      instance = icu::Normalizer2::getNFKCInstance(status);
      break;
    case UnicodeForm::kNfkd:
      instance = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  return std::make_unique<UnicodeFormNormalizer>(instance);
}

}  // namespace ftune
