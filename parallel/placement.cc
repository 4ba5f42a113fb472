#include "parallel/placement.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "parallel/comm/call.h"

namespace ftune {
namespace {

int64_t SizeOf(const std::vector<Section>& sections) {
  int64_t size = 0;
  for (const Section& section : sections) size += section.size();
  return size;
}

HeldRange HeldOf(const Section& section, int64_t section_begin, const AxisPosition& at) {
  if (section.replicated && section.parts < at.size) {
    assert(at.size % section.parts == 0);
    const int replicas = at.size / static_cast<int>(section.parts);
    return {section_begin + at.rank / replicas * section.part_size, section.part_size, replicas};
  }
  const std::vector<int64_t> parts = EvenCounts(section.parts, at.size);
  return {section_begin + Offsets(parts)[at.rank] * section.part_size, parts[at.rank] * section.part_size, 1};
}

}  // namespace

Dimension::Dimension(std::vector<Section> sections, const AxisPosition& position)
    : size_(SizeOf(sections)), position_(position) {
  if (position.size > 1) sections_ = std::move(sections);
}

std::vector<HeldRange> Dimension::held() const {
  if (!sharded()) return {{0, size_, 1}};
  std::vector<HeldRange> held;
  int64_t begin = 0;
  for (const Section& section : sections_) {
    held.push_back(HeldOf(section, begin, position_));
    begin += section.size();
  }
  return held;
}

int64_t Dimension::local_size() const {
  int64_t size = 0;
  for (const HeldRange& range : held()) size += range.count;
  return size;
}

Dimension Dimension::On(int rank) const {
  Dimension other = *this;
  other.position_.rank = rank;
  return other;
}

int64_t Dimension::first() const { return held().front().begin; }

int64_t Dimension::largest_local_size() const {
  int64_t largest = 0;
  for (int rank = 0; rank < position_.size; ++rank) largest = std::max(largest, On(rank).local_size());
  return largest;
}

}  // namespace ftune
