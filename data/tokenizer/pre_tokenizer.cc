#include "data/tokenizer/pre_tokenizer.h"

#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/unicode_class.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

class Split : public PreTokenizer {
 public:
  Split(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void Apply(Pieces& pieces) const override {
    std::vector<TextPiece> result;
    result.reserve(pieces.pieces.size() + pieces.text.text.size() / 4);
    PieceSplitter splitter(behavior_, invert_, result);
    Regex::Matcher matcher(pattern_);
    for (const TextPiece& piece : pieces.pieces) {
      // The pattern sees the piece only: its look-behind and look-ahead end there.
      splitter.Start(piece.begin);
      ForEachMatch(matcher, pieces.text.text.substr(piece.begin, piece.end - piece.begin),
                   [&](size_t begin, size_t end) { splitter.Match(piece.begin + begin, piece.begin + end); });
      splitter.Finish(piece.end);
    }
    pieces.pieces = std::move(result);
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// At single characters for which `Delimiter` is true.
template <typename Delimiter>
class CharacterSplit : public PreTokenizer {
 public:
  CharacterSplit(Delimiter delimiter, SplitBehavior behavior) : delimiter_(delimiter), behavior_(behavior) {}

  void Apply(Pieces& pieces) const override {
    std::vector<TextPiece> result;
    PieceSplitter splitter(behavior_, false, result);
    for (const TextPiece& piece : pieces.pieces) {
      splitter.Start(piece.begin);
      for (size_t position = piece.begin; position < piece.end;) {
        const size_t begin = position;
        if (delimiter_(NextChar(pieces.text.text, &position))) splitter.Match(begin, position);
      }
      splitter.Finish(piece.end);
    }
    pieces.pieces = std::move(result);
  }

 private:
  Delimiter delimiter_;
  SplitBehavior behavior_;
};

// \w+|[^\w\s]+ of Rust's regex crate: runs of one kind, without those of space.
class Whitespace : public PreTokenizer {
 public:
  void Apply(Pieces& pieces) const override {
    enum class Kind { kSpace, kWord, kOther };
    std::vector<TextPiece> result;
    for (const TextPiece& piece : pieces.pieces) {
      Kind last = Kind::kSpace;
      for (size_t position = piece.begin; position < piece.end;) {
        const size_t begin = position;
        const char32_t c = NextChar(pieces.text.text, &position);
        const Kind kind = IsWordChar(c) ? Kind::kWord : IsUnicodeSpace(c) ? Kind::kSpace : Kind::kOther;
        if (kind != Kind::kSpace) {
          if (kind == last) {
            result.back().end = position;
          } else {
            result.push_back({begin, position});
          }
        }
        last = kind;
      }
    }
    pieces.pieces = std::move(result);
  }
};

class UnicodeScripts : public PreTokenizer {
 public:
  void Apply(Pieces& pieces) const override {
    std::vector<TextPiece> result;
    for (const TextPiece& piece : pieces.pieces) {
      int last = kNoScript;
      for (size_t position = piece.begin; position < piece.end;) {
        const size_t begin = position;
        const int script = SplitScript(NextChar(pieces.text.text, &position));
        if (script != kNoScript && script != last) {
          result.push_back({begin, position});
          last = script;
        } else if (last != kNoScript) {  // what comes before the first script is lost, as in `tokenizers`
          result.back().end = position;
        }
      }
    }
    pieces.pieces = std::move(result);
  }
};

class FixedLength : public PreTokenizer {
 public:
  explicit FixedLength(size_t length) : length_(length) {}

  void Apply(Pieces& pieces) const override {
    std::vector<TextPiece> result;
    for (const TextPiece& piece : pieces.pieces) {
      size_t count = 0;
      for (size_t position = piece.begin; position < piece.end; ++count) {
        if (count % length_ == 0) result.push_back({position, position});
        position += Utf8Length(pieces.text.text[position]);
        result.back().end = position;
      }
    }
    pieces.pieces = std::move(result);
  }

 private:
  size_t length_;
};

// A step that writes a new text: `rewrite` appends a piece's new text to `out`.
template <typename Rewrite>
void RewritePieces(Pieces& pieces, const Rewrite& rewrite) {
  AlignedBuffer out;
  out.Clear(pieces.text.base);
  std::vector<TextPiece> result;
  for (const TextPiece& piece : pieces.pieces) {
    const size_t begin = out.view().text.size();
    rewrite(pieces.text.Slice(piece.begin, piece.end), out);
    result.push_back({begin, out.view().text.size()});
  }
  pieces.storage = std::move(out);
  pieces.text = pieces.storage.view();
  pieces.pieces = std::move(result);
}

class Metaspace : public PreTokenizer {
 public:
  Metaspace(char32_t replacement, PrependScheme scheme) : scheme_(scheme) {
    AppendUtf8(replacement_, replacement);
  }

  void Apply(Pieces& pieces) const override {
    RewritePieces(pieces, [this](const AlignedView& piece, AlignedBuffer& out) {
      const bool has_one = piece.text.starts_with(' ') || piece.text.starts_with(replacement_);
      const TextSpan start = piece.Span(0, 0);
      if (!has_one &&
          (scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && start.begin == 0))) {
        out.Append(replacement_, start);
      }
      size_t done = 0;
      for (size_t space = piece.text.find(' '); space != std::string_view::npos;
           space = piece.text.find(' ', done)) {
        out.Copy(piece, done, space);
        done = space + 1;
        out.Append(replacement_, piece.Span(space, done));
      }
      out.Copy(piece, done, piece.text.size());
    });
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
};

class PrefixSpace : public PreTokenizer {
 public:
  void Apply(Pieces& pieces) const override {
    RewritePieces(pieces, [](const AlignedView& piece, AlignedBuffer& out) {
      if (!piece.text.starts_with(' ')) out.Append(" ", piece.Span(0, 0));
      out.Copy(piece, 0, piece.text.size());
    });
  }
};

class ByteLevelMap : public PreTokenizer {
 public:
  void Apply(Pieces& pieces) const override {
    RewritePieces(pieces, [](const AlignedView& piece, AlignedBuffer& out) {
      for (size_t i = 0; i < piece.text.size(); ++i) {
        out.Append(ToByteLevel(piece.text.substr(i, 1)), piece.Span(i, i + 1));
      }
    });
  }
};

}  // namespace

void PreTokenizerSteps::Add(std::unique_ptr<PreTokenizer> step) {
  WriteByteLevel();
  steps.push_back(std::move(step));
}

void PreTokenizerSteps::WriteByteLevel() {
  if (byte_level) steps.push_back(MakeByteLevelMap());
  byte_level = false;
}

std::unique_ptr<PreTokenizer> MakeSplit(Regex pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<Split>(std::move(pattern), behavior, invert);
}

std::unique_ptr<PreTokenizer> MakeClassSplit(CharClass delimiter, SplitBehavior behavior) {
  return std::make_unique<CharacterSplit<CharClass>>(delimiter, behavior);
}

std::unique_ptr<PreTokenizer> MakeCharSplit(char32_t delimiter, SplitBehavior behavior) {
  const auto is_delimiter = [delimiter](char32_t c) { return c == delimiter; };
  return std::make_unique<CharacterSplit<decltype(is_delimiter)>>(is_delimiter, behavior);
}

std::unique_ptr<PreTokenizer> MakeUnicodeScripts() { return std::make_unique<UnicodeScripts>(); }

std::unique_ptr<PreTokenizer> MakeFixedLength(size_t length) { return std::make_unique<FixedLength>(length); }

std::unique_ptr<PreTokenizer> MakeWhitespace() { return std::make_unique<Whitespace>(); }

std::unique_ptr<PreTokenizer> MakeMetaspace(char32_t replacement, PrependScheme scheme) {
  return std::make_unique<Metaspace>(replacement, scheme);
}

std::unique_ptr<PreTokenizer> MakePrefixSpace() { return std::make_unique<PrefixSpace>(); }

std::unique_ptr<PreTokenizer> MakeByteLevelMap() { return std::make_unique<ByteLevelMap>(); }

}  // namespace ftune
