// The folder of a run's checkpoints: names, what is whole, committing, removing, what is kept.
#include "engine/checkpoint/checkpoint_folder.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/atomic_file.h"
#include "base/folder.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/checkpoint_builder.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;
using testing::Floats;
using testing::WriteCheckpoint;

Manifest Small(const fs::path& folder, int64_t step) {
  return WriteCheckpoint(folder, step, {Floats("w", {2, 3}, {1, 2, 3, 4, 5, 6}), Floats("b", {2}, {7, 8})});
}

TEST_CASE("names of checkpoints") {
  for (const int64_t step : {int64_t{0}, int64_t{7}, int64_t{99'999'999}, int64_t{100'000'000}}) {
    CHECK(StepOfName(CheckpointName(step)) == step);
  }
  CHECK(CheckpointName(120) == "step-00000120");
  for (const char* name : {"", "step-", "step-120", "step-000000120", "step-00000120 ", "step-0000012x",
                           "Step-00000120", ".removing-step-00000120", "step--0000001", "step-+0000001",
                           "step-99999999999999999999", "superseded-1-step-00000120"}) {
    CHECK_MESSAGE(StepOfName(name) == std::nullopt, name);
  }
}

TEST_CASE("checkpoints are listed by step, the newest first; nothing else is") {
  const TempFolder folder;
  CHECK(ListCheckpoints(folder / "none")->empty());
  for (const int64_t step : {5, 100'000'000, 20}) Small(folder / CheckpointName(step), step);
  fs::create_directory(folder / "step-00000030");  // without a manifest it is none
  fs::create_directory(folder / ".removing-step-00000040");
  WriteBytes(folder / "step-00000050", "a file");
  WriteBytes(folder / "notes.txt", "mine");
  const auto found = ListCheckpoints(folder.path());
  REQUIRE(found.ok());
  REQUIRE(found->size() == 3);
  CHECK((*found)[0].step == 100'000'000);
  CHECK((*found)[1].step == 20);
  CHECK((*found)[2].step == 5);
  CHECK((*found)[2].folder == folder / "step-00000005");
}

TEST_CASE("a checkpoint's files are there in full size, or it is none") {
  const TempFolder folder;
  const Manifest written = Small(folder.path(), 3);
  const auto whole = InspectCheckpoint(folder.path());
  REQUIRE_MESSAGE(whole.ok(), std::string(whole.status().message()));
  CHECK(whole->bytes() == written.bytes());
  const fs::path file = folder / "rank-0.safetensors";
  const auto size = fs::file_size(file);
  for (uintmax_t bytes = 0; bytes < size; bytes += 13) {
    fs::resize_file(file, bytes);
    CHECK(NotSaid(InspectCheckpoint(folder.path()).status(), file.string(), "cut off",
                  StrCat(bytes, " bytes")) == "");
  }
  fs::resize_file(file, size + 1);
  CHECK(NotSaid(InspectCheckpoint(folder.path()).status(), file.string(), "has grown") == "");
  fs::remove(file);
  CHECK(NotSaid(InspectCheckpoint(folder.path()).status(), file.string()) == "");
  fs::create_directory(file);
  CHECK(NotSaid(InspectCheckpoint(folder.path()).status(), file.string()) == "");
  fs::remove(folder / kManifestName);
  CHECK(NotSaid(InspectCheckpoint(folder.path()).status(), "manifest.json") == "");
}

TEST_CASE("each byte of a file counts for its checksum") {
  const TempFolder folder;
  const Manifest manifest = Small(folder.path(), 3);
  const CheckpointFile& file = manifest.files.front();
  CHECK(CheckHash(folder.path(), file).ok());
  const std::string content = ReadBytes(folder / file.name);
  for (size_t i = 0; i < content.size(); ++i) {
    std::string flipped = content;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    fs::remove(folder / file.name);  // many file systems flush what is overwritten
    WriteBytes(folder / file.name, flipped);
    REQUIRE(NotSaid(CheckHash(folder.path(), file), file.name, "damaged") == "");
  }
  WriteBytes(folder / file.name, content.substr(0, content.size() - 1));
  CHECK(NotSaid(CheckHash(folder.path(), file), file.name) == "");
  fs::remove(folder / file.name);
  CHECK(NotSaid(CheckHash(folder.path(), file), file.name) == "");
}

TEST_CASE("a checkpoint is committed under its name, in place of one that is there") {
  const TempFolder folder;
  const fs::path target = folder / CheckpointName(3);
  for (const float value : {1.0f, 2.0f}) {
    Manifest manifest;
    manifest.step = manifest.state.position.step = 3;
    const fs::path incomplete = folder / ".incomplete";
    testing::WriteShardFiles(incomplete, {Floats("w", {2}, {value, value})}, manifest);
    CHECK(ListCheckpoints(folder.path())->size() == (value == 1.0f ? 0 : 1));
    REQUIRE(CommitCheckpoint(incomplete, manifest, target).ok());
    CHECK_FALSE(Exists(incomplete));
    const auto read = InspectCheckpoint(target);
    REQUIRE(read.ok());
    CHECK(CheckHash(target, read->files.front()).ok());
    CHECK(read->files.front().xxh3 == manifest.files.front().xxh3);
  }
}

TEST_CASE("a removed checkpoint is gone, also where an earlier removal was interrupted") {
  const TempFolder folder;
  const fs::path checkpoint = folder / CheckpointName(3);
  Small(checkpoint, 3);
  Small(folder / ".removing-step-00000003", 3);
  REQUIRE(RemoveCheckpoint(checkpoint).ok());
  CHECK(ListFolder(folder.path())->empty());
  CHECK_FALSE(RemoveCheckpoint(checkpoint).ok());
}

TEST_CASE("which checkpoints are kept") {
  using Steps = std::vector<int64_t>;
  CHECK(StepsToRemove({30, 10, 20}, {.keep_last = 2}) == Steps{10});
  CHECK(StepsToRemove({30, 10, 20}, {.keep_last = 1}) == Steps{10, 20});
  CHECK(StepsToRemove({10}, {.keep_last = 2}).empty());
  CHECK(StepsToRemove({}, {.keep_last = 2}).empty());
  CHECK(StepsToRemove({10, 20, 30, 40}, {.keep_last = 1, .keep_every = 20}) == Steps{10, 30});
  CHECK(StepsToRemove({10, 20, 30, 40}, {.keep_last = 1, .best_step = 10}) == Steps{20, 30});
  CHECK(StepsToRemove({10, 20, 30, 40}, {.keep_last = 1, .keep_every = 30, .best_step = 20}) == Steps{10});
  CHECK(StepsToRemove({10, 20}, {.keep_last = 2, .best_step = 5}).empty());
}

}  // namespace
}  // namespace ftune
