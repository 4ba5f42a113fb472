// Files, folders, patterns and standard input as sources.
#include "data/file/list_source.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "block_checks.h"
#include "data/file/glob.h"
#include "files.h"

namespace ftune {
namespace {

using Strings = std::vector<std::string>;

class Tree : public TempFolder {
 public:
  explicit Tree(const Strings& files) {
    for (const std::string& file : files) {
      std::filesystem::create_directories((std::filesystem::path(path()) / file).parent_path());
      Write(file, "{\"text\":\"" + file + "\"}\n");
    }
  }

  // What `pattern`, below the tree's folder, names, without that folder.
  Strings List(const std::string& pattern) const { return Names(ListSource(path() + pattern)); }
  absl::Status Error(const std::string& pattern) const { return ListSource(path() + pattern).status(); }

 private:
  Strings Names(const absl::StatusOr<std::vector<DataFile>>& files) const {
    INFO(std::string(files.status().message()));
    REQUIRE(files.ok());
    Strings names;
    for (const DataFile& file : *files) {
      REQUIRE(file.path.starts_with(path() + "/"));
      names.push_back(file.path.substr(path().size() + 1));
    }
    return names;
  }
};

TEST_CASE("natural order") {
  Strings names = {"b",   "a10", "a9",  "a/z",   "a",   "a09", "a2b",
                   "a2a", "a02", "a-1", "a/b/c", "a/b", "A",   "a99999999999999999999",
                   "a0",  "a00"};
  std::sort(names.begin(), names.end(), NaturallyBefore);
  CHECK(names == Strings{"A", "a", "a/b", "a/b/c", "a/z", "a-1", "a0", "a00", "a02", "a2a", "a2b", "a09",
                         "a9", "a10", "a99999999999999999999", "b"});
}

TEST_CASE("a folder: its files of known kinds, in natural order, without hidden ones") {
  const Tree tree({"d/part-10.jsonl", "d/part-2.jsonl.gz", "d/sub/x.csv", "d/sub/.hidden.csv",
                   "d/.git/a.jsonl", "d/README", "d/notes.md", "d/Z.PARQUET", "d/y.tsv.zst", "e/README",
                   "t/a.txt", "t/b.jsonl", "u/a.txt", "u/b.text.gz"});
  CHECK(tree.List("/d") ==
        Strings{"d/Z.PARQUET", "d/part-2.jsonl.gz", "d/part-10.jsonl", "d/sub/x.csv", "d/y.tsv.zst"});
  CHECK(tree.List("/u") == Strings{"u/a.txt", "u/b.text.gz"});
  CheckDataError(tree.Error("/e"), "a folder with 1 files whose names tell nothing", 0);
  CheckDataError(tree.Error("/t"), "tables and plain text", 0);
  std::filesystem::create_directory(tree.path() + "/empty");
  CheckDataError(tree.Error("/empty"), "a folder without files", 0);
}

TEST_CASE("patterns") {
  const Tree tree({"a1.jsonl", "a2.jsonl", "a10.jsonl", "b.csv", ".a3.jsonl", "x/a4.jsonl", "x/y/a5.jsonl",
                   "x/.z/a6.jsonl", "w[1].jsonl", "x/y/b"});
  CHECK(tree.List("/a*.jsonl") == Strings{"a1.jsonl", "a2.jsonl", "a10.jsonl"});
  CHECK(tree.List("/a?.jsonl") == Strings{"a1.jsonl", "a2.jsonl"});
  CHECK(tree.List("/a[2-9].jsonl") == Strings{"a2.jsonl"});
  CHECK(tree.List("/a[!2].jsonl") == Strings{"a1.jsonl"});
  CHECK(tree.List("/.a*") == Strings{".a3.jsonl"});
  CHECK(tree.List("/*/*.jsonl") == Strings{"x/a4.jsonl"});
  CHECK(tree.List("/**/a*.jsonl") ==
        Strings{"a1.jsonl", "a2.jsonl", "a10.jsonl", "x/a4.jsonl", "x/y/a5.jsonl"});
  CHECK(tree.List("/x/**") == Strings{"x/a4.jsonl", "x/y/a5.jsonl", "x/y/b"});
  CHECK(tree.List("/**/**/y/*5*") == Strings{"x/y/a5.jsonl"});
  CHECK(tree.List("/*/y/b") == Strings{"x/y/b"});
  CHECK(tree.List("/w[1].jsonl") == Strings{"w[1].jsonl"});  // the very name goes first
  CheckDataError(tree.Error("/c*"), "no file matches", 0);
  CheckDataError(tree.Error("/x*"), "no file matches", 0);  // a folder is none
  CheckDataError(ListSource("[").status(), "no file matches", 0);
}

TEST_CASE("patterns are taken from the folder one is in") {
  const Tree tree({"x/a.jsonl"});
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(tree.path());
  const auto bare = ListSource("*/a.jsonl");
  const auto dotted = ListSource("./x/*");
  std::filesystem::current_path(before);
  REQUIRE(bare.ok());
  REQUIRE(dotted.ok());
  CHECK((*bare)[0].path == "x/a.jsonl");
  CHECK((*dotted)[0].path == "./x/a.jsonl");
}

TEST_CASE("symbolic links are followed, but not in circles") {
  const Tree tree({"d/a.jsonl", "elsewhere/b.jsonl", "blob"});
  const std::string d = tree.path() + "/d/";
  std::filesystem::create_directory_symlink(tree.path(), d + "up");
  std::filesystem::create_directory_symlink(".", d + "self");
  std::filesystem::create_symlink("../blob", d + "c.jsonl");
  CHECK(tree.List("/d") == Strings{"d/a.jsonl", "d/c.jsonl", "d/up/elsewhere/b.jsonl"});
  CHECK(tree.List("/d/**/b*").size() == 2);  // up/blob and up/elsewhere/b.jsonl
  CHECK(ReadPath(d + "c.jsonl").rows == Strings{R"({"text":"blob"})"});
}

TEST_CASE("a folder that may not be looked into") {
  const Tree tree({"d/closed/a.jsonl", "d/b.jsonl"});
  const std::string closed = tree.path() + "/d/closed";
  REQUIRE(chmod(closed.c_str(), 0) == 0);
  if (access(closed.c_str(), R_OK) != 0) {  // it may for root
    CheckDataError(tree.Error("/d"), "cannot list: Permission denied", 0);
    CheckDataError(tree.Error("/d/**"), "cannot list: Permission denied", 0);
  }
  REQUIRE(chmod(closed.c_str(), 0700) == 0);
}

TEST_CASE("the rows of all files come one file after the other") {
  const Tree tree({"d/b2.jsonl", "d/b10.jsonl"});
  tree.Write("d/a.csv", "text\none\n");
  const ReadRows read = ReadPath(tree.path() + "/d");
  CHECK(read.error.ok());
  CHECK(read.rows == Strings{R"({"text":"one"})", R"({"text":"d/b2.jsonl"})", R"({"text":"d/b10.jsonl"})"});
  CHECK(read.blocks.size() == 3);
  tree.Write("d/b2.jsonl", "");
  CheckDataError(ReadPath(tree.path() + "/d").error, "an empty file", 0);
}

TEST_CASE("standard input is kept in a file, and can be read as often as wanted") {
  const TempFolder folder;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += "{\"n\":" + std::to_string(i) + "}\n";
  std::thread writer([&] {
    for (size_t at = 0; at < text.size();)
      at += static_cast<size_t>(write(ends[1], text.data() + at, text.size() - at));
    close(ends[1]);
  });
  const auto spooled = SpoolInput(ends[0], folder.path());
  writer.join();
  REQUIRE(spooled.ok());
  CHECK(spooled->is_standard_input());
  CHECK(std::filesystem::is_empty(folder.path()));
  for (int time = 0; time < 2; ++time) {
    const ReadRows read = ReadBlocks(OpenFileBlocks(*spooled));
    CHECK(read.error.ok());
    REQUIRE(read.rows.size() == 30'000);
    CHECK(read.rows.back() == R"({"n":29999})");
  }
  CheckDataError(SpoolInput(ends[0], folder.path()).status(), "standard input: error: found nothing", 0);
  close(ends[0]);
  CheckDataError(SpoolInput(-1, folder.path()).status(), "standard input: error: cannot read", 0);
  CheckDataError(SpoolInput(-1, folder.path() + "/absent").status(), "a copy of standard input", 0);
}

TEST_CASE("standard input that cannot be told or is broken") {
  const TempFolder folder;
  const auto read = [&](std::string_view text, const OpenOptions& options = {}) {
    const int fd = open(folder.Write("input", text).c_str(), O_RDONLY);
    const auto spooled = SpoolInput(fd, folder.path());
    close(fd);
    REQUIRE(spooled.ok());
    return ReadBlocks(OpenFileBlocks(*spooled, options));
  };
  CHECK(read("[{\"a\":1}]").rows == Strings{R"({"a":1})"});
  CheckDataError(read("{}\n{\"a\"}\n").error, "standard input:2: error: not valid JSON", 2);
  CheckDataError(read("some words").error, "neither the name nor the first byte", 0);
  OpenOptions text;
  text.kind = FileKind::kText;
  CHECK(read("some words", text).rows == Strings{R"({"text":"some words"})"});
  CheckDataError(read("PAR1").error, "Parquet", 0);
}

}  // namespace
}  // namespace ftune
