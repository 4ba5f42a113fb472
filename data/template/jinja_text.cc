#include "data/template/jinja_text.h"

#include <algorithm>

namespace ftune::jinja {

Text::Text(std::string bytes, const Tag& tag) : bytes_(std::move(bytes)) {
  if (!bytes_.empty() && tag != Tag{}) runs_.push_back({bytes_.size(), tag});
}

void Text::Append(std::string_view bytes, const Tag& tag) {
  if (bytes.empty()) return;
  const size_t before = bytes_.size();
  bytes_.append(bytes);
  if (runs_.empty() && tag == Tag{}) return;
  if (runs_.empty() && before > 0) runs_.push_back({before, Tag{}});
  runs_.push_back({bytes_.size(), tag});
}

void Text::AppendRange(const Text& other, size_t begin, size_t end) {
  if (begin >= end) return;
  const std::string_view bytes = other.bytes_;
  if (other.runs_.empty()) {
    Append(bytes.substr(begin, end - begin));
    return;
  }
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t offset, const Run& r) { return offset < r.end; });
  for (size_t at = begin; at < end; ++run) {
    const size_t stop = std::min(run->end, end);
    Append(bytes.substr(at, stop - at), run->tag);
    at = stop;
  }
}

Text Text::Range(size_t begin, size_t end) const {
  Text out;
  out.AppendRange(*this, begin, end);
  return out;
}

Tag MergeTags(const Tag& a, const Tag& b) {
  Tag merged = a.origin >= b.origin ? a : b;
  merged.turn = std::max(a.turn, b.turn);
  merged.generation = std::max(a.generation, b.generation);
  return merged;
}

Tag Text::Merged() const {
  Tag merged;
  for (const Run& run : runs_) merged = MergeTags(merged, run.tag);
  return merged;
}

void Text::Restamp(int32_t turn, int32_t generation) {
  if (bytes_.empty() || (turn < 0 && generation < 0)) return;
  if (runs_.empty()) runs_.push_back({bytes_.size(), Tag{}});
  for (Run& run : runs_) {
    if (turn >= 0) run.tag.turn = turn;
    if (generation >= 0) run.tag.generation = generation;
  }
}

}  // namespace ftune::jinja
