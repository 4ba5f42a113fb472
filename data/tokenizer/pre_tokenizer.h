// Splits of the normalised text into pieces, over which no token reaches; some change the text as well.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer/aligned_text.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/split_behavior.h"

namespace ftune {

// A text and the pieces of it that are left, in order, none of them empty.
struct Pieces {
  AlignedView text;
  std::vector<TextPiece> pieces;
  AlignedBuffer storage;  // where a step wrote `text`
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Splits each piece further.
  virtual void Apply(Pieces& pieces) const = 0;
};

// GPT-2's pattern, which ByteLevel splits by.
inline constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::unique_ptr<PreTokenizer> MakeSplit(Regex pattern, SplitBehavior behavior, bool invert);
// At characters of a class (unicode_class.h).
using CharClass = bool (*)(char32_t);
std::unique_ptr<PreTokenizer> MakeClassSplit(CharClass delimiter, SplitBehavior behavior);
std::unique_ptr<PreTokenizer> MakeCharSplit(char32_t delimiter, SplitBehavior behavior);
// Where the script changes (SplitScript); spaces and what is of no script stay with what is before them.
// Those that begin a piece are dropped.
std::unique_ptr<PreTokenizer> MakeUnicodeScripts();
// `length` characters each, but for the last.
std::unique_ptr<PreTokenizer> MakeFixedLength(size_t length);
// Words and runs of what is neither word nor space.
std::unique_ptr<PreTokenizer> MakeWhitespace();

enum class PrependScheme { kFirst, kNever, kAlways };
// Spaces become `replacement`; one is put before pieces that lack it (kFirst: only before the piece that
// begins the original text).
std::unique_ptr<PreTokenizer> MakeMetaspace(char32_t replacement, PrependScheme scheme);
// A space before each piece that has none.
std::unique_ptr<PreTokenizer> MakePrefixSpace();
// Each byte becomes its character of the byte-level alphabet.
std::unique_ptr<PreTokenizer> MakeByteLevelMap();

// The steps of a tokenizer. A byte-level map that comes last is not a step: the model reads bytes instead.
struct PreTokenizerSteps {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  bool byte_level = false;
  void Add(std::unique_ptr<PreTokenizer> step);
  // Makes the byte-level map a step, for what comes behind it.
  void WriteByteLevel();
};

}  // namespace ftune
