#include "data/tokenizer/normalizer.h"

#include <algorithm>

#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/unicode_class.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

class Lowercase : public Normalizer {
 public:
  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    bool changed = false;
    std::string lower;
    for (size_t position = 0; position < text.text.size();) {
      const size_t begin = position;
      const char32_t c = NextChar(text.text, &position);
      const LowerCase to = ToLower(c);
      if (to.first == c) {
        out.Copy(text, begin, position);
        continue;
      }
      changed = true;
      lower.clear();
      AppendUtf8(lower, to.first);
      if (to.second != 0) AppendUtf8(lower, to.second);
      out.Append(lower, text.Span(begin, position));
    }
    return changed;
  }
};

// Character by character: `map` gives what each becomes, kRemoved for nothing.
constexpr char32_t kRemoved = 0xFFFFFFFF;

class MapCharacters : public Normalizer {
 public:
  using Map = char32_t (*)(char32_t);
  explicit MapCharacters(Map map) : map_(map) {}

  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    bool changed = false;
    std::string mapped;
    for (size_t position = 0; position < text.text.size();) {
      const size_t begin = position;
      const char32_t c = NextChar(text.text, &position);
      const char32_t to = map_(c);
      if (to == c) {
        out.Copy(text, begin, position);
        continue;
      }
      changed = true;
      if (to == kRemoved) continue;
      mapped.clear();
      AppendUtf8(mapped, to);
      out.Append(mapped, text.Span(begin, position));
    }
    return changed;
  }

 private:
  Map map_;
};

char32_t WithoutMarks(char32_t c) { return IsCombiningMark(c) ? kRemoved : c; }
char32_t WithoutNonspacingMarks(char32_t c) { return IsNonspacingMark(c) ? kRemoved : c; }

// The rules of SentencePiece's nmt_nfkc that come before its table: control characters go, spaces of all
// kinds become one.
char32_t NmtCharacter(char32_t c) {
  const bool control =
      (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
  if (control) return kRemoved;
  const bool space = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == kReplacementChar;
  return space ? ' ' : c;
}

char32_t BertCharacter(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return ' ';
  if (c == 0 || c == kReplacementChar || IsOther(c)) return kRemoved;
  return IsUnicodeSpace(c) ? ' ' : c;
}

// The blocks that BERT takes for Chinese characters.
bool IsBertHan(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

class SpaceAroundHan : public Normalizer {
 public:
  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    bool changed = false;
    for (size_t position = 0; position < text.text.size();) {
      const size_t begin = position;
      const bool han = IsBertHan(NextChar(text.text, &position));
      if (han) out.Append(" ", text.Span(begin, begin));
      out.Copy(text, begin, position);
      if (han) out.Append(" ", text.Span(position, position));
      changed |= han;
    }
    return changed;
  }
};

class Strip : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    size_t begin = 0, end = text.text.size();
    while (left_ && begin < end) {
      size_t next = begin;
      if (!IsUnicodeSpace(NextChar(text.text, &next))) break;
      begin = next;
    }
    while (right_ && end > begin) {
      const size_t start = PreviousBoundary(text.text, end);
      size_t next = start;
      if (!IsUnicodeSpace(NextChar(text.text, &next))) break;
      end = start;
    }
    out.Copy(text, begin, end);
    return begin > 0 || end < text.text.size();
  }

 private:
  bool left_, right_;
};

class Replace : public Normalizer {
 public:
  Replace(Regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    size_t done = 0;
    bool changed = false;
    Regex::Matcher matcher(pattern_);
    ForEachMatch(matcher, text.text, [&](size_t begin, size_t end) {
      out.Copy(text, done, begin);
      out.Append(content_, text.Span(begin, end));
      done = end;
      changed = true;
    });
    out.Copy(text, done, text.text.size());
    return changed;
  }

 private:
  Regex pattern_;
  std::string content_;
};

class ReplaceText : public Normalizer {
 public:
  ReplaceText(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    size_t found = text.text.find(pattern_);
    if (found == std::string_view::npos) return false;
    out.Reserve(text.text.size() * 3 / 2);
    size_t done = 0;
    while (found != std::string_view::npos) {
      out.Copy(text, done, found);
      done = found + pattern_.size();
      out.Append(content_, text.Span(found, done));
      found = text.text.find(pattern_, done);
    }
    out.Copy(text, done, text.text.size());
    return true;
  }

 private:
  std::string pattern_, content_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}

  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    if (text.text.empty()) return false;
    out.Append(prefix_, text.Span(0, 0));
    out.Copy(text, 0, text.text.size());
    return true;
  }

 private:
  std::string prefix_;
};

class ByteLevelNormalizer : public Normalizer {
 public:
  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    for (size_t i = 0; i < text.text.size(); ++i)
      out.Append(ToByteLevel(text.text.substr(i, 1)), text.Span(i, i + 1));
    return true;
  }
};

}  // namespace

AlignedView Normalize(const std::vector<std::unique_ptr<Normalizer>>& steps, const AlignedView& text,
                      NormalizerStorage& storage) {
  AlignedView view = text;
  int target = 0;
  for (const auto& step : steps) {
    AlignedBuffer& out = storage.buffers[target];
    out.Clear(text.base);
    if (!step->Apply(view, out)) continue;
    view = out.view();
    target = 1 - target;
  }
  return view;
}

std::unique_ptr<Normalizer> MakeLowercase() { return std::make_unique<Lowercase>(); }
std::unique_ptr<Normalizer> MakeStripAccents() { return std::make_unique<MapCharacters>(WithoutMarks); }
std::unique_ptr<Normalizer> MakeStripNonspacingMarks() {
  return std::make_unique<MapCharacters>(WithoutNonspacingMarks);
}
std::unique_ptr<Normalizer> MakeNmt() { return std::make_unique<MapCharacters>(NmtCharacter); }
std::unique_ptr<Normalizer> MakeBertCleanText() { return std::make_unique<MapCharacters>(BertCharacter); }
std::unique_ptr<Normalizer> MakeSpaceAroundHan() { return std::make_unique<SpaceAroundHan>(); }
std::unique_ptr<Normalizer> MakeStrip(bool left, bool right) { return std::make_unique<Strip>(left, right); }
std::unique_ptr<Normalizer> MakeReplace(Regex pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}
std::unique_ptr<Normalizer> MakeReplaceText(std::string pattern, std::string content) {
  return std::make_unique<ReplaceText>(std::move(pattern), std::move(content));
}
std::unique_ptr<Normalizer> MakePrepend(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}
std::unique_ptr<Normalizer> MakeByteLevelNormalizer() { return std::make_unique<ByteLevelNormalizer>(); }

}  // namespace ftune
