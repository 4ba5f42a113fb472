#include "engine/checkpoint/superseded.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/folder.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

void Make(const fs::path& checkpoints, const std::string& name, bool manifest = true) {
  REQUIRE(MakeFolder(checkpoints / name).ok());
  if (manifest) WriteBytes(checkpoints / name / kManifestName, "{}");
}

TEST_CASE("later checkpoints are set aside") {
  const TempFolder temp;
  for (const int64_t step : {2, 4, 10, 12}) Make(temp.path(), CheckpointName(step), step != 12);
  absl::StatusOr<std::vector<int64_t>> aside = SetAsideAfter(temp.path(), 4, 3);
  REQUIRE(aside.ok());
  CHECK(*aside == std::vector<int64_t>{10, 12});
  CHECK(Exists(temp.path() / "superseded-3-step-00000010" / "manifest.json"));
  CHECK(Exists(temp.path() / "superseded-3-step-00000012"));
  CHECK(ListCheckpointFolders(temp.path())->size() == 2);
  aside = SetAsideAfter(temp.path(), 4, 4);
  REQUIRE(aside.ok());
  CHECK(aside->empty());
  CHECK(SetAsideAfter(temp.path() / "nothing", 0, 1).ok());
  // What was set aside before is never replaced.
  Make(temp.path(), CheckpointName(10));
  CHECK_FALSE(SetAsideAfter(temp.path(), 4, 3).ok());
  CHECK(Exists(temp.path() / "step-00000010" / "manifest.json"));
}

TEST_CASE("what is set aside is listed by attempt, then by step") {
  const TempFolder temp;
  for (const char* name : {"superseded-10-step-00000002", "superseded-9-step-00000012",
                           "superseded-9-step-00000003", "step-00000001"}) {
    Make(temp.path(), name);
  }
  Make(temp.path(), "superseded-9-step-00000004", /*manifest=*/false);
  for (const char* name : {"superseded-", "superseded-9", "superseded-9-", "superseded-9-step-3",
                           "superseded-x-step-00000003", "superseded-09-step-00000003",
                           "superseded-9_step-00000003", "superseded-99999999999-step-00000003"}) {
    Make(temp.path(), name);
  }
  WriteBytes(temp.path() / "superseded-9-step-00000005", "a file");
  const absl::StatusOr<std::vector<SupersededCheckpoint>> found = ListSuperseded(temp.path());
  REQUIRE(found.ok());
  REQUIRE(found->size() == 4);
  CHECK((*found)[0].entry.folder.filename() == "superseded-9-step-00000003");
  CHECK((*found)[1].entry.folder.filename() == "superseded-9-step-00000004");
  CHECK((*found)[2].entry.folder.filename() == "superseded-9-step-00000012");
  CHECK((*found)[3].entry.folder.filename() == "superseded-10-step-00000002");
  CHECK((*found)[3].attempt == 10);
  CHECK((*found)[3].entry.step == 2);
  CHECK(ListSuperseded(temp.path() / "nothing")->empty());
}

}  // namespace
}  // namespace ftune
