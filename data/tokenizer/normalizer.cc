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

class StripAccents : public Normalizer {
 public:
  bool Apply(const AlignedView& text, AlignedBuffer& out) const override {
    bool changed = false;
    for (size_t position = 0; position < text.text.size();) {
      const size_t begin = position;
      if (IsCombiningMark(NextChar(text.text, &position))) {
        changed = true;
      } else {
        out.Copy(text, begin, position);
      }
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
std::unique_ptr<Normalizer> MakeStripAccents() { return std::make_unique<StripAccents>(); }
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
