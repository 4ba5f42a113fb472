// Ids, revisions, paths and listings of repositories.
#include "base/hub/repo.h"

#include <doctest/doctest.h>

#include "base/hub/repo_file.h"

namespace ftune {
namespace {

TEST_CASE("what is a hub id, and what can only be a path") {
  const auto id = [](const char* text) { return ParseHubPath(text, RepoKind::kModel).has_value(); };
  for (const char* yes : {"org/name", "Qwen/Qwen2.5-0.5B", "a_b/c-d.e", "o/n-GGUF"}) {
    CAPTURE(yes);
    CHECK(id(yes));
  }
  for (const char* no :
       {"",           "name",          "/org/name",   "./name",   "../name",  "org/",
        "/name",      "org/name/",     "org/na me",   "o/n--m",   "o/..",     "o/n..m",
        "-o/n",       "o/n.",          "o/n.git",     "o/n/x",    "o/x.gguf", "data/train.JSONL",
        "d/x.csv.gz", "o/n/../x.gguf", "o/n//x.gguf", "hf://o/n", "o\\n/m",   "o/n\n"}) {
    CAPTURE(no);
    CHECK_FALSE(id(no));
  }
  CHECK_FALSE(id((std::string("o/") + std::string(97, 'x')).c_str()));
  const std::optional<HubPath> file = ParseHubPath("o/n/Q4/a.gguf", RepoKind::kModel);
  REQUIRE(file);
  CHECK(file->repo.id == "o/n");
  CHECK(file->file == "Q4/a.gguf");
  CHECK_FALSE(ParseHubPath("o/n/a.gguf", RepoKind::kDataset));
  CHECK(Repo{RepoKind::kModel, "o/n"}.folder() == "models--o--n");
  CHECK(Repo{RepoKind::kDataset, "o/n"}.folder() == "datasets--o--n");
}

TEST_CASE("revisions and paths stay where they belong") {
  for (const char* yes :
       {"main", "v1.0", "refs/pr/12", "feature/x_y", "0123456789abcdef0123456789abcdef01234567"}) {
    CAPTURE(yes);
    CHECK(IsRevision(yes));
  }
  for (const char* no : {"", "/main", "a/../b", "..", "a//b", "a b", "a:b", "-x", "a\n", "a..b", "x/"}) {
    CAPTURE(no);
    CHECK_FALSE(IsRevision(no));
  }
  CHECK(IsSafePath("a/b c/é.json"));
  CHECK_FALSE(IsSafePath("a/./b"));
  CHECK(IsCommit("0123456789abcdef0123456789abcdef01234567"));
  CHECK_FALSE(IsCommit("0123456789ABCDEF0123456789abcdef01234567"));
}

TEST_CASE("a listing is read, kept and read again") {
  const std::string sha1(40, 'a'), sha256(64, 'b');
  const std::string page = R"([{"type": "directory", "oid": "x", "size": 0, "path": "d"},
    {"type": "file", "oid": ")" +
                           sha1 + R"(", "size": 5, "path": "d/x.json"},
    {"type": "file", "oid": ")" +
                           sha1 + R"(", "size": 134, "path": "w.bin", "xetHash": ")" + sha256 +
                           R"(", "lfs": {"oid": ")" + sha256 +
                           R"(", "size": 7000000000, "pointerSize": 134}}])";
  std::vector<RepoFile> files;
  REQUIRE(AddTreePage(page, "page", files).ok());
  REQUIRE(files.size() == 2);
  CHECK(files[0].etag() == sha1);
  CHECK(files[1].etag() == sha256);
  CHECK(files[1].size == 7000000000);
  const absl::StatusOr<std::vector<RepoFile>> again = TreeFromJson(TreeToJson(files), "tree");
  REQUIRE(again.ok());
  REQUIRE(again->size() == 2);
  CHECK((*again)[1].path == "w.bin");
  CHECK((*again)[1].etag() == sha256);
  CHECK((*again)[1].size == 7000000000);
  CHECK((*again)[1].xet_hash == sha256);
  CHECK((*again)[0].sha256.empty());

  const auto wrong = [&](const std::string& entry) {
    return !AddTreePage("[" + entry + "]", "page", files).ok();
  };
  CHECK(wrong(R"({"type": "file", "oid": ")" + sha1 + R"(", "size": 5, "path": "../x"})"));
  CHECK(wrong(R"({"type": "file", "oid": ")" + sha1 + R"(", "size": -5, "path": "x"})"));
  CHECK(wrong(R"({"type": "file", "oid": "../x", "size": 5, "path": "x"})"));
  CHECK(wrong(R"({"type": "file", "oid": ")" + sha1 +
              R"(", "size": 5, "path": "x", "lfs": {"oid": "z", "size": 1}})"));
  CHECK(wrong(R"({"type": "file", "oid": ")" + sha1 + R"(", "size": 5, "path": "x", "lfs": 3})"));
  CHECK(wrong(R"({"type": "file"})"));
  CHECK(wrong("3"));
  CHECK_FALSE(TreeFromJson(R"({"format_version": 2, "files": {}})", "tree").ok());
  CHECK_FALSE(TreeFromJson("[]", "tree").ok());
}

}  // namespace
}  // namespace ftune
