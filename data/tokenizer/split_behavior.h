// What becomes of the delimiters when text is split: SplitDelimiterBehavior of huggingface/tokenizers.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace ftune {

// Of "the-final--countdown", split at "-":
enum class SplitBehavior {
  kRemoved,             // the final countdown
  kIsolated,            // the - final - - countdown
  kMergedWithPrevious,  // the- final- - countdown
  kMergedWithNext,      // the -final - -countdown
  kContiguous,          // the - final -- countdown
};

std::optional<SplitBehavior> ParseSplitBehavior(std::string_view name);

// Bytes [begin, end) of a text.
struct TextPiece {
  size_t begin = 0, end = 0;
};

// Collects one text's matches, left to right, and what lies between, as pieces.
class PieceSplitter {
 public:
  // Pieces are appended to `pieces`, none of them empty. `invert`: what lies between is the delimiter.
  PieceSplitter(SplitBehavior behavior, bool invert, std::vector<TextPiece>& pieces)
      : behavior_(behavior), invert_(invert), pieces_(pieces) {}

  void Start(size_t begin) { done_ = begin; }
  void Match(size_t begin, size_t end) {
    if (done_ < begin) Add({done_, begin}, invert_);
    Add({begin, end}, !invert_);
    done_ = end;
  }
  void Finish(size_t end);

 private:
  struct Part {
    TextPiece piece;
    bool delimiter;
  };
  void Add(TextPiece piece, bool delimiter) {
    if (behavior_ == SplitBehavior::kIsolated || (behavior_ == SplitBehavior::kRemoved && !delimiter)) {
      Emit(piece);
    } else if (behavior_ != SplitBehavior::kRemoved) {
      parts_.push_back({piece, delimiter});
    }
  }
  void Emit(TextPiece piece) {
    if (piece.begin < piece.end) pieces_.push_back(piece);
  }

  SplitBehavior behavior_;
  bool invert_;
  std::vector<TextPiece>& pieces_;
  std::vector<Part> parts_;  // for behaviours that look at neighbours
  size_t done_ = 0;
};

}  // namespace ftune
