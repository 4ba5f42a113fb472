// Boxes of a tensor: which a rank's elements are, copies between them, and what tiles a tensor.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/random.h"
#include "base/strings.h"
#include "engine/checkpoint/region.h"
#include "tests/unit/engine/checkpoint_builder.h"

namespace ftune {
namespace {

using testing::RandomTiling;

constexpr int kRounds = 3000;

std::vector<int64_t> ElementsOf(const Dimension& dimension) {
  std::vector<int64_t> elements;
  for (const HeldRange& range : dimension.held()) {
    for (int64_t i = 0; i < range.count; ++i) elements.push_back(range.begin + i);
  }
  return elements;
}

// Places in the whole of the parameter's local elements, one by one.
std::vector<std::vector<int64_t>> PlacesOf(const Parameter& p) {
  std::vector<std::vector<int64_t>> places;
  if (p.dims.size() == 1) {
    for (const int64_t i : ElementsOf(p.dims[0])) places.push_back({i});
    return places;
  }
  const std::vector<int64_t> columns = ElementsOf(p.dims[1]);
  for (const int64_t row : ElementsOf(p.dims[0])) {
    for (const int64_t column : columns) places.push_back({row, column});
  }
  return places;
}

std::vector<std::vector<int64_t>> PlacesOf(const Region& region) {
  std::vector<std::vector<int64_t>> places;
  for (int64_t i = 0; i < region.elements(); ++i) {
    std::vector<int64_t> place = region.begin;
    int64_t rest = i;
    for (size_t d = place.size(); d-- > 0;) {
      place[d] += rest % region.size[d];
      rest /= region.size[d];
    }
    places.push_back(place);
  }
  return places;
}

Dimension RandomDimension(RandomSequence& random, bool cut, const AxisPosition& position) {
  if (!cut) return Dimension(static_cast<int64_t>(1 + random.Below(9)));
  std::vector<Section> sections(1 + random.Below(3));
  for (Section& section : sections) {
    section.replicated = random.Below(3) == 0;
    section.part_size = 1 + static_cast<int64_t>(random.Below(4));
    // Replicated parts divide the ranks.
    section.parts = section.replicated ? (random.Below(2) == 0 ? 1 : position.size)
                                       : position.size + static_cast<int64_t>(random.Below(5));
  }
  return Dimension(sections, position);
}

Parameter RandomParameter(RandomSequence& random) {
  const AxisPosition position = {.rank = 0, .size = static_cast<int>(1 + random.Below(4))};
  const AxisPosition here = {.rank = static_cast<int>(random.Below(position.size)), .size = position.size};
  const size_t dims = 1 + random.Below(2), cut = random.Below(3);
  Parameter p;
  p.name = "p";
  for (size_t d = 0; d < dims; ++d) {
    p.dims.push_back(RandomDimension(random, d == cut, here));
    p.shape.push_back(p.dims.back().size());
    p.local_shape.push_back(p.dims.back().local_size());
  }
  return p;
}

Region RandomRegion(const std::vector<int64_t>& shape, RandomSequence& random) {
  Region region;
  for (const int64_t n : shape) {
    region.begin.push_back(static_cast<int64_t>(random.Below(n)));
    region.size.push_back(1 + static_cast<int64_t>(random.Below(n - region.begin.back())));
  }
  return region;
}

std::vector<int64_t> RandomShape(RandomSequence& random, size_t dims) {
  std::vector<int64_t> shape(dims);
  for (int64_t& n : shape) n = 1 + static_cast<int64_t>(random.Below(7));
  return shape;
}

TEST_CASE("RegionsOf a range are its elements in their order") {
  RandomSequence random(11, 1);
  size_t several = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Parameter p = RandomParameter(random);
    const std::vector<std::vector<int64_t>> all = PlacesOf(p);
    REQUIRE(std::ssize(all) == p.size());
    const auto begin = static_cast<int64_t>(random.Below(all.size()));
    const auto count = static_cast<int64_t>(random.Below(all.size() - begin + 1));
    std::vector<std::vector<int64_t>> got;
    for (const Region& region : RegionsOf(p, {begin, count})) {
      for (auto& place : PlacesOf(region)) got.push_back(std::move(place));
    }
    const std::vector<std::vector<int64_t>> want(all.begin() + begin, all.begin() + begin + count);
    REQUIRE_MESSAGE(got == want, "round ", round);
    several += RegionsOf(p, {0, p.size()}).size() > 1;
  }
  CHECK(several > kRounds / 20);
}

TEST_CASE("RegionsOf has no more boxes than it needs") {
  Parameter p{.shape = {6, 8}, .dims = {Dimension(6), Dimension(8)}, .local_shape = {6, 8}};
  CHECK(RegionsOf(p, {0, 48}) == std::vector<Region>{{{0, 0}, {6, 8}}});
  CHECK(RegionsOf(p, {8, 0}).empty());
  CHECK(RegionsOf(p, {5, 21}) == std::vector<Region>{{{0, 5}, {1, 3}}, {{1, 0}, {2, 8}}, {{3, 0}, {1, 2}}});
}

TEST_CASE("what all ranks hold tiles the parameter") {
  RandomSequence random(12, 1);
  for (int round = 0; round < kRounds / 10; ++round) {
    const int ranks = static_cast<int>(1 + random.Below(4));
    const size_t cut = random.Below(2);
    std::vector<Section> sections(1 + random.Below(3));
    for (Section& section : sections)
      section = {.parts = ranks + static_cast<int64_t>(random.Below(4)), .part_size = 2};
    std::vector<Region> regions;
    std::vector<int64_t> shape;
    for (int rank = 0; rank < ranks; ++rank) {
      Parameter p;
      for (size_t d = 0; d < 2; ++d) {
        p.dims.push_back(d == cut ? Dimension(sections, {rank, ranks}) : Dimension(3));
        p.local_shape.push_back(p.dims.back().local_size());
      }
      p.shape = shape = {p.dims[0].size(), p.dims[1].size()};
      // As two ranks of ZeRO would share it.
      const auto half = static_cast<int64_t>(random.Below(p.size() + 1));
      for (const FlatRange& range : {FlatRange{0, half}, FlatRange{half, p.size() - half}}) {
        for (Region& region : RegionsOf(p, range)) regions.push_back(std::move(region));
      }
    }
    CHECK(WhyNotTiled(shape, regions) == std::nullopt);
    regions.erase(regions.begin() + static_cast<int64_t>(random.Below(regions.size())));
    CHECK(WhyNotTiled(shape, regions).has_value());
  }
}

TEST_CASE("CopyShared copies what both have, and nothing else") {
  RandomSequence random(13, 1);
  for (int round = 0; round < kRounds; ++round) {
    const size_t dims = 1 + random.Below(3);
    const std::vector<int64_t> shape = RandomShape(random, dims);
    const Region from = RandomRegion(shape, random), to = RandomRegion(shape, random);
    const DType dtype = round % 2 == 0 ? DType::kU16 : DType::kU8;
    const size_t width = static_cast<size_t>(BytesFor(dtype, 1));
    std::vector<uint8_t> source(from.elements() * width), target(to.elements() * width, 0xEE);
    for (uint8_t& byte : source) byte = static_cast<uint8_t>(random.Below(0xEE));
    const std::vector<uint8_t> before = target;
    CopyShared(dtype, from, reinterpret_cast<const std::byte*>(source.data()), to,
               reinterpret_cast<std::byte*>(target.data()));
    const auto sources = PlacesOf(from), targets = PlacesOf(to);
    for (size_t i = 0; i < targets.size(); ++i) {
      const auto found = std::find(sources.begin(), sources.end(), targets[i]);
      const uint8_t* want =
          found == sources.end() ? &before[i * width] : &source[(found - sources.begin()) * width];
      REQUIRE_MESSAGE(std::memcmp(&target[i * width], want, width) == 0, "round ", round);
    }
  }
}

TEST_CASE("WhyNotTiled agrees with counting each element") {
  RandomSequence random(14, 1);
  int tiled = 0, overlapping = 0, missing = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<int64_t> shape = RandomShape(random, 1 + random.Below(3));
    std::vector<Region> regions = RandomTiling(shape, static_cast<int>(random.Below(12)), random);
    Shuffle(std::span(regions), random);
    const uint64_t harm = random.Below(4);
    if (harm == 1) regions.pop_back();
    if (harm == 2) regions.push_back(RandomRegion(shape, random));
    if (harm == 3) {  // as many elements, at another place
      const Region other = RandomRegion(shape, random);
      for (Region& region : regions) {
        if (region.size == other.size) region = other;
      }
    }
    std::vector<int> counts(static_cast<size_t>(WholeOf(shape).elements()), 0);
    for (const Region& region : regions) {
      for (const auto& place : PlacesOf(region)) {
        int64_t at = 0;
        for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + place[d];
        ++counts[static_cast<size_t>(at)];
      }
    }
    const std::optional<std::string> why = WhyNotTiled(shape, regions);
    const bool twice = std::any_of(counts.begin(), counts.end(), [](int n) { return n > 1; });
    const bool none = std::any_of(counts.begin(), counts.end(), [](int n) { return n == 0; });
    REQUIRE(why.has_value() == (twice || none));
    if (twice) REQUIRE(Contains(*why, "overlap"));
    if (none && !twice) REQUIRE(Contains(*why, "missing"));
    tiled += !why;
    overlapping += twice;
    missing += none && !twice;
  }
  CHECK(std::min({tiled, overlapping, missing}) > kRounds / 20);
}

TEST_CASE("WhyNotTiled refuses what is no part of the tensor") {
  const std::vector<int64_t> shape = {4, 6};
  CHECK(Contains(*WhyNotTiled(shape, {{{0, 0}, {5, 6}}}), "[0:5, 0:6] is no part of it"));
  CHECK(Contains(*WhyNotTiled(shape, {{{0, 0}, {4, 6}}, {{4, 0}, {1, 6}}}), "is no part of it"));
  CHECK(Contains(*WhyNotTiled(shape, {{{0, 0}, {4, 6}}, {{2, 2}, {0, 1}}}), "is no part of it"));
  CHECK(Contains(*WhyNotTiled(shape, {{{0}, {4}}}), "is no part of it"));
  CHECK(Contains(*WhyNotTiled(shape, {{{0, 0}, {4}}}), "is no part of it"));
  CHECK(Contains(*WhyNotTiled(shape, {{{-1, 0}, {4, 6}}}), "is no part of it"));
  CHECK(Contains(*WhyNotTiled(shape, {}), "24 of 24 elements are missing"));
  CHECK(WhyNotTiled({0, 6}, {}) == std::nullopt);
}

// A rank's columns of a matrix that is stored the other way round are one slice a row.
TEST_CASE("WhyNotTiled takes a slice for each row, and many rows") {
  constexpr int64_t kRows = 20000, kRuns = 6;
  std::vector<Region> regions;
  for (int64_t run = 0; run < kRuns; ++run) {
    for (int64_t row = 0; row < kRows; ++row) regions.push_back({{row, run * 10}, {1, 10}});
  }
  CHECK(WhyNotTiled({kRows, kRuns * 10}, regions) == std::nullopt);
  std::swap(regions.front().begin[0], regions.back().begin[1]);
  CHECK(WhyNotTiled({kRows, kRuns * 10}, regions).has_value());
}

}  // namespace
}  // namespace ftune
