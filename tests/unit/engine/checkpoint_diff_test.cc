// How far two checkpoints are apart.
#include "engine/checkpoint/checkpoint_diff.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/checkpoint_builder.h"

namespace ftune {
namespace {

using testing::BuiltTensor;
using testing::Floats;
using testing::RandomTiling;
using testing::WriteCheckpoint;

CheckpointDifference Compare(const std::vector<BuiltTensor>& a, const std::vector<BuiltTensor>& b) {
  const TempFolder first, second;
  WriteCheckpoint(first.path(), 1, a);
  WriteCheckpoint(second.path(), 2, b);
  auto one = CheckpointReader::Open(first.path()), other = CheckpointReader::Open(second.path());
  REQUIRE(one.ok());
  REQUIRE(other.ok());
  auto difference = CompareCheckpoints(*one, *other);
  REQUIRE(difference.ok());
  return *std::move(difference);
}

TEST_CASE("the same tensors in other slices are equal") {
  RandomSequence random(51, 1);
  // More than one piece of what is compared at once.
  const std::vector<int64_t> shape = {700, 1000};
  std::vector<float> values(700'000);
  for (float& value : values) value = random.Uniform();
  BuiltTensor a = Floats("w", shape, values), b = a;
  for (Region& region : RandomTiling(shape, 9, random)) a.slices.push_back({std::move(region), 0});
  for (Region& region : RandomTiling(shape, 9, random)) b.slices.push_back({std::move(region), 1});
  CHECK(Compare({a}, {b}).equal());

  values[699'999] += 0.5f;
  values[3] = -values[3];
  const CheckpointDifference difference = Compare({a}, {Floats("w", shape, values)});
  CHECK_FALSE(difference.equal());
  REQUIRE(difference.tensors.size() == 1);
  CHECK(difference.tensors[0].different == 2);
  CHECK(difference.tensors[0].elements == 700'000);
  CHECK(difference.tensors[0].max_relative == doctest::Approx(2.0));
  CHECK(difference.tensors[0].max_absolute == doctest::Approx(0.5));
}

TEST_CASE("values and states, and what only one has") {
  BuiltTensor state = Floats("w", {2}, {1, 2});
  state.state = "exp_avg";
  BuiltTensor other = state;
  other.state = "exp_avg_sq";
  BuiltTensor count{.name = "w", .state = "count", .dtype = DType::kI64, .shape = {1}};
  count.bytes.resize(8, std::byte{0});
  BuiltTensor later = count;
  later.bytes[0] = std::byte{5};
  const CheckpointDifference difference =
      Compare({Floats("w", {2}, {1, 2}), Floats("a", {1}, {0}), state, count},
              {Floats("w", {2}, {1, 4}), Floats("b", {1}, {0}), other, later});
  CHECK(difference.only_in_first == std::vector<std::string>{"a", "w: exp_avg"});
  CHECK(difference.only_in_second == std::vector<std::string>{"b", "w: exp_avg_sq"});
  REQUIRE(difference.tensors.size() == 2);
  CHECK(difference.tensors[0].name == "w");
  CHECK(difference.tensors[0].max_absolute == 2.0);
  CHECK(difference.tensors[0].max_relative == 0.5);
  CHECK(difference.tensors[1].state == "count");
  CHECK(difference.tensors[1].max_absolute == 5.0);
}

TEST_CASE("numbers that are not finite, other types, other shapes") {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  const CheckpointDifference numbers =
      Compare({Floats("w", {4}, {nan, nan, infinity, 1})}, {Floats("w", {4}, {nan, 1, infinity, -infinity})});
  CHECK(numbers.tensors[0].different == 2);
  CHECK(numbers.tensors[0].not_finite == 2);
  CHECK(numbers.tensors[0].max_absolute == 0.0);
  CHECK_FALSE(numbers.equal());

  BuiltTensor half{.name = "w", .dtype = DType::kBF16, .shape = {2}};
  half.bytes = {std::byte{0x80}, std::byte{0x3F}, std::byte{0}, std::byte{0x40}};  // 1, 2
  CHECK(Compare({Floats("w", {2}, {1, 2})}, {half}).equal());
  CHECK(Compare({Floats("w", {2}, {1, 2.5})}, {half}).tensors[0].max_absolute == 0.5);

  const CheckpointDifference shapes = Compare({Floats("w", {2, 1}, {1, 2})}, {Floats("w", {1, 2}, {1, 2})});
  CHECK(shapes.tensors[0].why_not_compared == "shapes [2, 1] and [1, 2]");
  CHECK_FALSE(shapes.equal());
}

}  // namespace
}  // namespace ftune
