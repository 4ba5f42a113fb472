// SentencePiece's table of characters, which tokenizer.json calls Precompiled. Source of the format:
// sentencepiece's normalizer.cc and the Darts-clone library's double array; of how it is applied:
// huggingface/tokenizers, normalizers/precompiled.rs.
#include <unicode/brkiter.h>
#include <unicode/utext.h>

#include <cstring>
#include <vector>

#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

// A unit of the double array: 32 bits with the label of the edge that leads here, where its children are, and
// whether a key ends here.
class Unit {
 public:
  explicit Unit(uint32_t bits) : bits_(bits) {}
  bool has_leaf() const { return (bits_ >> 8 & 1) != 0; }
  uint32_t value() const { return bits_ & 0x7FFFFFFF; }
  uint32_t label() const { return bits_ & (1u << 31 | 0xFF); }
  uint32_t offset() const { return bits_ >> 10 << ((bits_ & 1u << 9) >> 6); }

 private:
  uint32_t bits_;
};

class Precompiled : public Normalizer {
 public:
  Precompiled(std::vector<uint32_t> units, std::string replacements,
              std::unique_ptr<icu::BreakIterator> characters)
      : units_(std::move(units)),
        replacements_(std::move(replacements)),
        characters_(std::move(characters)) {}

  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    bool changed = false;
    std::unique_ptr<icu::BreakIterator> characters;  // one for each thread; made if there is need
    for (size_t position = 0; position < text.text.size();) {
      const size_t end = PlainEnd(text.text, position);
      for (; position < end; ++position) changed |= AppendCharacter(text, position, position + 1, out);
      const size_t mixed_end = MixedEnd(text.text, position);
      if (position == mixed_end) continue;
      if (characters == nullptr) characters.reset(characters_->clone());
      changed |= AppendMixed(text, position, mixed_end, *characters, out);
      position = mixed_end;
    }
    return changed;
  }

 private:
  // Up to here each byte from `begin` on is what a user sees as one character: between two bytes of ASCII
  // there is always a boundary, but for CR LF (UAX 29).
  static size_t PlainEnd(std::string_view text, size_t begin) {
    size_t end = begin;
    while (end < text.size() && IsAscii(text[end]) && !text.substr(end).starts_with("\r\n")) ++end;
    if (end == begin || end == text.size() || text[end] == '\r') return end;
    return end - 1;  // what comes next may join the last
  }
  // The next boundary that is certain: between two bytes of ASCII.
  static size_t MixedEnd(std::string_view text, size_t begin) {
    if (begin == text.size()) return begin;
    size_t end = begin + 1;
    while (end < text.size() &&
           !(IsAscii(text[end - 1]) && IsAscii(text[end]) && !(text[end - 1] == '\r' && text[end] == '\n'))) {
      ++end;
    }
    return end;
  }
  static bool IsAscii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }

  bool AppendMixed(const AlignedView& text, size_t begin, size_t end, icu::BreakIterator& characters,
                   AlignedBuffer& out) const {
    UErrorCode status = U_ZERO_ERROR;
    UText utext = UTEXT_INITIALIZER;
    utext_openUTF8(&utext, text.text.data() + begin, static_cast<int64_t>(end - begin), &status);
    characters.setText(&utext, status);
    bool changed = false;
    int32_t from = characters.first();
    for (int32_t to = characters.next(); to != icu::BreakIterator::DONE; from = to, to = characters.next()) {
      changed |=
          AppendGrapheme(text, begin + static_cast<size_t>(from), begin + static_cast<size_t>(to), out);
    }
    utext_close(&utext);
    return changed;
  }

  // What a user sees as one character is looked up as a whole if it is short, else character by character.
  bool AppendGrapheme(const AlignedView& text, size_t begin, size_t end, AlignedBuffer& out) const {
    constexpr size_t kMaxLookup = 5;
    if (end - begin <= kMaxLookup && Replace(text, begin, end, out)) return true;
    bool changed = false;
    for (size_t position = begin; position < end;) {
      const size_t next = position + Utf8Length(text.text[position]);
      changed |= AppendCharacter(text, position, next, out);
      position = next;
    }
    return changed;
  }

  bool AppendCharacter(const AlignedView& text, size_t begin, size_t end, AlignedBuffer& out) const {
    if (Replace(text, begin, end, out)) return true;
    out.Copy(text, begin, end);
    return false;
  }

  bool Replace(const AlignedView& text, size_t begin, size_t end, AlignedBuffer& out) const {
    const auto found = Find(text.text.substr(begin, end - begin));
    if (!found) return false;
    out.Append(*found, text.Span(begin, end));
    return true;
  }

  // What stands in the table for the shortest key that `text` starts with: all of `text` becomes that.
  std::optional<std::string_view> Find(std::string_view text) const {
    uint32_t at = Unit(units_[0]).offset();
    for (const char c : text) {
      const auto byte = static_cast<uint8_t>(c);
      at ^= byte;
      if (byte == 0 || at >= units_.size()) return std::nullopt;
      const Unit unit(units_[at]);
      if (unit.label() != byte) return std::nullopt;
      at ^= unit.offset();
      if (at >= units_.size()) return std::nullopt;
      if (unit.has_leaf()) {
        const size_t start = Unit(units_[at]).value();
        if (start >= replacements_.size()) return std::nullopt;
        return std::string_view(replacements_.c_str() + start);
      }
    }
    return std::nullopt;
  }

  std::vector<uint32_t> units_;
  std::string replacements_;  // ended by zeros; valid UTF-8
  std::unique_ptr<icu::BreakIterator> characters_;
};

}  // namespace

std::unique_ptr<Normalizer> MakePrecompiled(std::string_view table) {
  uint32_t size = 0;
  if (table.size() < sizeof(size)) return nullptr;
  std::memcpy(&size, table.data(), sizeof(size));
  table.remove_prefix(sizeof(size));
  if (size == 0 || size % sizeof(uint32_t) != 0 || size > table.size()) return nullptr;
  std::vector<uint32_t> units(size / sizeof(uint32_t));
  std::memcpy(units.data(), table.data(), size);
  std::string replacements(table.substr(size));
  size_t bad = 0;
  ValidUtf8Prefix(replacements, 0, &bad);
  if (bad != 0) return nullptr;
  UErrorCode status = U_ZERO_ERROR;
  std::unique_ptr<icu::BreakIterator> characters(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  if (U_FAILURE(status)) return nullptr;
  return std::make_unique<Precompiled>(std::move(units), std::move(replacements), std::move(characters));
}

}  // namespace ftune
