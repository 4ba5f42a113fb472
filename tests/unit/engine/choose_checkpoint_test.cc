#include "engine/checkpoint/choose_checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "base/xxh3_stream.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

constexpr int kFiles = 3;

// A whole checkpoint, without tensors.
void Save(const fs::path& checkpoints, int64_t step) {
  const fs::path folder = checkpoints / ".incomplete-test";
  REQUIRE(MakeFolder(folder).ok());
  Manifest manifest{.step = step, .recipe = "x", .mesh = nlohmann::ordered_json::object()};
  manifest.state.position.step = step;
  for (int i = 0; i < kFiles; ++i) {
    const std::string bytes(static_cast<size_t>(1000 * (i + 1)), static_cast<char>('a' + i));
    const std::string name = StrCat("rank-", i, ".safetensors");
    WriteBytes(folder / name, bytes);
    manifest.files.push_back({name, std::ssize(bytes), Xxh3Of(bytes)});
  }
  REQUIRE(CommitCheckpoint(folder, manifest, checkpoints / CheckpointName(step)).ok());
}

void FlipByte(const fs::path& path, size_t at) {
  std::string bytes = ReadBytes(path);
  bytes[at] ^= 1;
  WriteBytes(path, bytes);
}

void Replace(const fs::path& path, const std::string& from, const std::string& to) {
  std::string text = ReadBytes(path);
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  WriteBytes(path, text.replace(at, from.size(), to));
}

TEST_CASE("the newest whole checkpoint, or the one that is asked for") {
  const TempFolder temp;
  const fs::path checkpoints = temp.path() / "checkpoints";
  absl::StatusOr<CheckpointChoice> choice = ChooseCheckpoint(checkpoints, {});
  REQUIRE(choice.ok());
  CHECK_FALSE(choice->chosen.has_value());

  for (const int64_t step : {2, 10, 4}) Save(checkpoints, step);
  REQUIRE(MakeFolder(checkpoints / ".incomplete-step-00000012").ok());
  REQUIRE(MakeFolder(checkpoints / "superseded-2-step-00000099").ok());
  choice = ChooseCheckpoint(checkpoints, {});
  REQUIRE(choice.ok());
  CHECK(choice->chosen->step == 10);
  CHECK(choice->chosen->folder == checkpoints / "step-00000010");
  CHECK(choice->manifest.step == 10);
  CHECK(choice->damaged.empty());
  choice = ChooseCheckpoint(checkpoints, 4);
  REQUIRE(choice.ok());
  CHECK(choice->chosen->step == 4);

  const absl::Status none = ChooseCheckpoint(checkpoints, 5).status();
  CHECK(ExitCodeOf(none) == 2);
  CHECK(NotSaid(none, "--step: found 5") == "");
  CHECK(NotSaid(none, "there are: 10, 4, 2") == "");
  CHECK(NotSaid(ChooseCheckpoint(temp.path() / "nothing", 5).status(), "there are: none") == "");
}

TEST_CASE("a damaged checkpoint is passed over, and named") {
  struct Fault {
    std::string what;
    void (*make)(const fs::path& folder);
    std::string says;
  };
  const std::vector<Fault> faults = {
      {"a byte", [](const fs::path& f) { FlipByte(f / "rank-2.safetensors", 1234); }, "rank-2.safetensors"},
      {"the last byte", [](const fs::path& f) { FlipByte(f / "rank-0.safetensors", 999); },
       "it is not what was"},
      {"cut off", [](const fs::path& f) { fs::resize_file(f / "rank-1.safetensors", 1999); }, "cut off"},
      {"grown", [](const fs::path& f) { fs::resize_file(f / "rank-1.safetensors", 2001); }, "has grown"},
      {"no file", [](const fs::path& f) { fs::remove(f / "rank-1.safetensors"); }, "rank-1.safetensors"},
      {"no manifest", [](const fs::path& f) { fs::remove(f / "manifest.json"); }, "manifest.json"},
      {"half a manifest", [](const fs::path& f) { fs::resize_file(f / "manifest.json", 100); },
       "manifest.json"},
      {"another's manifest",
       [](const fs::path& f) {
         fs::copy_file(f.parent_path() / "step-00000004" / "manifest.json", f / "manifest.json",
                       fs::copy_options::overwrite_existing);
       },
       "step: found 4, expected 10"},
  };
  for (const Fault& fault : faults) {
    CAPTURE(fault.what);
    const TempFolder temp;
    for (const int64_t step : {4, 10}) Save(temp.path(), step);
    fault.make(temp.path() / "step-00000010");
    const absl::StatusOr<CheckpointChoice> choice = ChooseCheckpoint(temp.path(), {});
    REQUIRE(choice.ok());
    REQUIRE(choice->chosen.has_value());
    CHECK(choice->chosen->step == 4);
    REQUIRE(choice->damaged.size() == 1);
    CHECK(choice->damaged[0].entry.step == 10);
    CHECK(NotSaid(choice->damaged[0].why, fault.says) == "");
    // It is no choice where it is asked for.
    const absl::Status asked = ChooseCheckpoint(temp.path(), 10).status();
    CHECK(ExitCodeOf(asked) == 4);
    CHECK(NotSaid(asked, fault.says) == "");
    // Nor is the beginning, where no other is left.
    FlipByte(temp.path() / "step-00000004" / "rank-0.safetensors", 0);
    const absl::Status all = ChooseCheckpoint(temp.path(), {}).status();
    CHECK(ExitCodeOf(all) == 4);
    CHECK(NotSaid(all, "no checkpoint of this run is whole: step 10: ") == "");
    CHECK(NotSaid(all, "step 4: ") == "");
  }
}

TEST_CASE("a checkpoint of a newer version is not damaged") {
  const TempFolder temp;
  for (const int64_t step : {4, 10}) Save(temp.path(), step);
  Replace(temp.path() / "step-00000010" / "manifest.json", "\"version\": 1", "\"version\": 2");
  Replace(temp.path() / "step-00000010" / "manifest.json", "\n \"xxh3\"", "\n \"was\"");
  const absl::Status newer = ChooseCheckpoint(temp.path(), {}).status();
  CHECK(ExitCodeOf(newer) == 4);
  CHECK(NotSaid(newer, "resume with that newer ftune") == "");
  CHECK(ChooseCheckpoint(temp.path(), 4).ok());
}

TEST_CASE("the files are checked by several threads alike") {
  const TempFolder temp;
  Save(temp.path(), 7);
  const fs::path folder = temp.path() / "step-00000007";
  const absl::StatusOr<Manifest> manifest = InspectCheckpoint(folder);
  REQUIRE(manifest.ok());
  for (const int threads : {1, 2, 8}) {
    CAPTURE(threads);
    int64_t last = 0, total = 0;
    const CheckOptions options = {.threads = threads, .on_progress = [&](int64_t done, int64_t of) {
                                    CHECK(done > last);
                                    last = done;
                                    total = of;
                                  }};
    CHECK(CheckFiles(folder, *manifest, options).ok());
    CHECK(last == 6000);
    CHECK(total == 6000);
  }
  FlipByte(folder / "rank-1.safetensors", 5);
  FlipByte(folder / "rank-2.safetensors", 5);
  for (const int threads : {1, 2, 8}) {
    CHECK(NotSaid(CheckFiles(folder, *manifest, {.threads = threads}), "rank-1.safetensors") == "");
  }
}

}  // namespace
}  // namespace ftune
