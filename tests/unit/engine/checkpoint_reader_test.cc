// Any part of a tensor, read from whatever slices it was written in.
#include "engine/checkpoint/checkpoint_reader.h"

#include <doctest/doctest.h>

#include <cstring>

#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/checkpoint_builder.h"

namespace ftune {
namespace {

using testing::BuiltTensor;
using testing::RandomTiling;
using testing::WriteCheckpoint;

std::vector<int64_t> RandomShape(RandomSequence& random) {
  std::vector<int64_t> shape(1 + random.Below(3));
  for (int64_t& n : shape) n = 1 + static_cast<int64_t>(random.Below(9));
  return shape;
}

BuiltTensor RandomTensor(std::string name, RandomSequence& random) {
  constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kU8, DType::kF64};
  BuiltTensor tensor{.name = std::move(name), .dtype = kTypes[random.Below(4)], .shape = RandomShape(random)};
  tensor.bytes.resize(BytesFor(tensor.dtype, WholeOf(tensor.shape).elements()));
  for (std::byte& byte : tensor.bytes) byte = static_cast<std::byte>(random.Below(256));
  for (Region& region : RandomTiling(tensor.shape, static_cast<int>(random.Below(10)), random))
    tensor.slices.push_back({std::move(region), random.Below(3)});
  return tensor;
}

TEST_CASE("random regions of random tilings") {
  RandomSequence random(21, 1);
  for (int round = 0; round < 10; ++round) {
    const TempFolder folder;
    std::vector<BuiltTensor> tensors;
    for (int i = 0; i < 24; ++i) tensors.push_back(RandomTensor(StrCat("t", i), random));
    WriteCheckpoint(folder.path(), 1, tensors);
    auto reader = CheckpointReader::Open(folder.path());
    REQUIRE_MESSAGE(reader.ok(), std::string(reader.status().message()));
    for (const BuiltTensor& tensor : tensors) {
      const CheckpointTensor& entry = reader->manifest().values.at(tensor.name);
      CHECK(entry.bytes() == std::ssize(tensor.bytes));
      // Regions of another tiling, so that each crosses some slices.
      for (const Region& region : RandomTiling(tensor.shape, 6, random)) {
        const size_t bytes = BytesFor(tensor.dtype, region.elements());
        std::vector<std::byte> want(bytes), got(bytes);
        CopyShared(tensor.dtype, WholeOf(tensor.shape), tensor.bytes.data(), region, want.data());
        REQUIRE(reader->Read(entry, region, got.data()).ok());
        REQUIRE(got == want);
      }
    }
  }
}

TEST_CASE("a file that is cut off behind the reader's back is an error") {
  const TempFolder folder;
  WriteCheckpoint(folder.path(), 1, {testing::Floats("w", {4, 4}, std::vector<float>(16, 1.0f))});
  auto reader = CheckpointReader::Open(folder.path());
  REQUIRE(reader.ok());
  std::filesystem::resize_file(folder / "rank-0.safetensors", 80);
  std::vector<float> out(16);
  const CheckpointTensor& w = reader->manifest().values.at("w");
  CHECK(NotSaid(reader->Read(w, WholeOf(w.shape), reinterpret_cast<std::byte*>(out.data())),
                "rank-0.safetensors", "cut off") == "");
}

}  // namespace
}  // namespace ftune
