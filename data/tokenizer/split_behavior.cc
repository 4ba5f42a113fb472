#include "data/tokenizer/split_behavior.h"

namespace ftune {

std::optional<SplitBehavior> ParseSplitBehavior(std::string_view name) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return std::nullopt;
}

void PieceSplitter::Finish(size_t end) {
  if (done_ < end) Add({done_, end}, invert_);
  done_ = end;
  // Whether part i joins the piece of part i - 1. A delimiter merges with a neighbour unless the part on its
  // other side took it: of a run of delimiters only the first (or last) merges.
  const auto joins = [&](size_t i) {
    switch (behavior_) {
      case SplitBehavior::kMergedWithPrevious:
        return parts_[i].delimiter && !parts_[i - 1].delimiter;
      case SplitBehavior::kMergedWithNext:
        return parts_[i - 1].delimiter && !parts_[i].delimiter;
      default:
        return parts_[i].delimiter == parts_[i - 1].delimiter;
    }
  };
  for (size_t i = 0; i < parts_.size();) {
    TextPiece piece = parts_[i].piece;
    for (++i; i < parts_.size() && joins(i); ++i) piece.end = parts_[i].piece.end;
    Emit(piece);
  }
  parts_.clear();
}

}  // namespace ftune
