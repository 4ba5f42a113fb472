// Changes of the text before it is split: Unicode normalisation, SentencePiece's spaces, and so on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizer/aligned_text.h"
#include "data/tokenizer/regex.h"

namespace ftune {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Writes the changed text into `out`, which was cleared, and returns true; or returns false if nothing
  // changes.
  virtual bool Apply(const AlignedView& text, AlignedBuffer& out) const = 0;
};

// In order. The result lies in `text` or in the storage.
struct NormalizerStorage {
  AlignedBuffer buffers[2];
};
AlignedView Normalize(const std::vector<std::unique_ptr<Normalizer>>& steps, const AlignedView& text,
                      NormalizerStorage& storage);

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };
std::unique_ptr<Normalizer> MakeUnicodeForm(UnicodeForm form);
std::unique_ptr<Normalizer> MakeLowercase();
// Without combining marks (general category M).
std::unique_ptr<Normalizer> MakeStripAccents();
// Without those of category Mn.
std::unique_ptr<Normalizer> MakeStripNonspacingMarks();
// White space of all kinds to spaces, without control characters.
std::unique_ptr<Normalizer> MakeNmt();
// The steps of BERT's that nothing else does: white space to spaces and no control characters; a space on
// each side of a Chinese character.
std::unique_ptr<Normalizer> MakeBertCleanText();
std::unique_ptr<Normalizer> MakeSpaceAroundHan();
// Characters by a table of SentencePiece's (precompiled_charsmap): null if `table` is none.
std::unique_ptr<Normalizer> MakePrecompiled(std::string_view table);
// Without white space at the ends.
std::unique_ptr<Normalizer> MakeStrip(bool left, bool right);
// Each match of `pattern` by `content`.
std::unique_ptr<Normalizer> MakeReplace(Regex pattern, std::string content);
// Each `pattern`, which is not empty, by `content`.
std::unique_ptr<Normalizer> MakeReplaceText(std::string pattern, std::string content);
// `prefix` before text that is not empty; it stems from no text.
std::unique_ptr<Normalizer> MakePrepend(std::string prefix);
// Each byte by its character of the byte-level alphabet.
std::unique_ptr<Normalizer> MakeByteLevelNormalizer();

}  // namespace ftune
