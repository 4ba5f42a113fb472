// Mapped, atomic and JSON files.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/mapped_file.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

int FilesIn(const std::filesystem::path& folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST_CASE("a mapped file has the file's bytes, and keeps them when moved") {
  TempFolder folder;
  WriteBytes(folder / "a", std::string("x\0y", 3));
  const std::byte* data = nullptr;
  const auto open = [&] {  // the object that is moved from goes away
    auto file = MappedFile::Open(folder / "a");
    REQUIRE(file.ok());
    data = file->bytes().data();
    return MappedFile(*std::move(file));
  };
  const MappedFile moved = open();
  CHECK(moved.text() == std::string_view("x\0y", 3));
  CHECK(moved.bytes().data() == data);
}

TEST_CASE("an empty file maps to no bytes") {
  TempFolder folder;
  WriteBytes(folder / "empty", "");
  const auto file = MappedFile::Open(folder / "empty");
  REQUIRE(file.ok());
  CHECK(file->bytes().empty());
  CHECK(file->text().empty());
}

TEST_CASE("what cannot be mapped is named") {
  TempFolder folder;
  const auto missing = MappedFile::Open(folder / "nothing").status();
  CHECK(NotSaid(missing, "nothing", "cannot open", "No such file") == "");
  CHECK(ExitCodeOf(missing) == 4);
  CHECK(NotSaid(MappedFile::Open(folder.path()).status(), "a folder", "a regular file") == "");
  const std::filesystem::path pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(NotSaid(MappedFile::Open(pipe).status(), "pipe", "a regular file") == "");
}

TEST_CASE("an atomic file appears at Commit and not before") {
  TempFolder folder;
  WriteBytes(folder / "a", "old");
  auto file = AtomicFile::Create(folder / "a");
  REQUIRE(file.ok());
  std::string expected;
  for (int i = 0; i < 1000; ++i) {  // pieces beside and above the buffer's size
    const std::string piece(i % 7 == 0 ? 300'000 : i, static_cast<char>('a' + i % 26));
    if (expected.size() > 5'000'000) break;
    REQUIRE(file->Append(piece).ok());
    expected += piece;
  }
  REQUIRE(file->Append(std::string(3'000'000, 'z')).ok());
  expected += std::string(3'000'000, 'z');
  CHECK(ReadBytes(folder / "a") == "old");
  REQUIRE(file->Commit().ok());
  CHECK(ReadBytes(folder / "a") == expected);
  CHECK(FilesIn(folder.path()) == 1);
}

TEST_CASE("an atomic file that is not committed leaves nothing") {
  TempFolder folder;
  WriteBytes(folder / "a", "old");
  {
    auto file = AtomicFile::Create(folder / "a");
    REQUIRE(file.ok());
    REQUIRE(file->Append("new").ok());
    CHECK(FilesIn(folder.path()) == 2);
  }
  CHECK(FilesIn(folder.path()) == 1);
  CHECK(ReadBytes(folder / "a") == "old");
}

TEST_CASE("two writers of one file do not disturb each other") {
  TempFolder folder;
  auto a = AtomicFile::Create(folder / "f");
  auto b = AtomicFile::Create(folder / "f");
  REQUIRE((a.ok() && b.ok()));
  REQUIRE((a->Append("aa").ok() && b->Append("b").ok()));
  REQUIRE(a->Commit().ok());
  REQUIRE(b->Commit().ok());
  CHECK(ReadBytes(folder / "f") == "b");
  CHECK(FilesIn(folder.path()) == 1);
}

// The system's limit on a file's size stands for a full disk.
TEST_CASE("a write that fails half way is an error and leaves the old file") {
  TempFolder folder;
  WriteBytes(folder / "a", "old");
  rlimit before;
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {100'000, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  const absl::Status status = WriteFileAtomic(folder / "a", std::string(5'000'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  CHECK(NotSaid(status, "a: ", "cannot write", "large") == "");
  CHECK(ReadBytes(folder / "a") == "old");
  CHECK(FilesIn(folder.path()) == 1);
}

TEST_CASE("a file that cannot be written is named") {
  TempFolder folder;
  CHECK(NotSaid(WriteFileAtomic(folder / "no/such", "x"), "no/such", "cannot create") == "");
  CHECK(NotSaid(WriteFileAtomic(folder.path() / "", "x"), "no file name") == "");
  std::filesystem::create_directories(folder / "taken/inside");
  CHECK(NotSaid(WriteFileAtomic(folder / "taken", "x"), "taken", "cannot replace") == "");
  CHECK(FilesIn(folder.path()) == 1);
}

TEST_CASE("a copy has the same bytes") {
  TempFolder folder;
  WriteBytes(folder / "a", std::string("1\0\n2", 4));
  REQUIRE(CopyFileAtomic(folder / "a", folder / "b").ok());
  CHECK(ReadBytes(folder / "b") == std::string("1\0\n2", 4));
  CHECK(NotSaid(CopyFileAtomic(folder / "none", folder / "c"), "none") == "");
}

TEST_CASE("a folder takes the place of another as a whole") {
  const TempFolder temp;
  const auto write = [&](const char* folder, const char* file) {
    REQUIRE(MakeFolder(temp.path() / folder).ok());
    REQUIRE(WriteFileAtomic(temp.path() / folder / file, file).ok());
  };
  write("new", "a");
  REQUIRE(ReplaceFolder(temp.path() / "new", temp.path() / "target").ok());
  CHECK(Exists(temp.path() / "target" / "a"));
  CHECK_FALSE(Exists(temp.path() / "new"));

  write("new", "b");
  REQUIRE(ReplaceFolder(temp.path() / "new", temp.path() / "target").ok());
  CHECK(Exists(temp.path() / "target" / "b"));
  CHECK_FALSE(Exists(temp.path() / "target" / "a"));
  CHECK_FALSE(Exists(temp.path() / "new"));

  CHECK(std::string(ReplaceFolder(temp.path() / "none", temp.path() / "target").message()).find("replace") !=
        std::string::npos);
  CHECK(Exists(temp.path() / "target" / "b"));
  CHECK(RemoveFolder(temp.path() / "none").ok());
}

TEST_CASE("folders are made and listed, and what is not one is named") {
  TempFolder folder;
  REQUIRE(MakeFolder(folder / "x/y").ok());
  REQUIRE(MakeFolder(folder / "x/y").ok());
  WriteBytes(folder / "x/b", "");
  WriteBytes(folder / "x/a", "");
  const auto paths = ListFolder(folder / "x");
  REQUIRE(paths.ok());
  CHECK(*paths == std::vector<std::filesystem::path>{folder / "x/a", folder / "x/b", folder / "x/y"});
  CHECK(Exists(folder / "x/a"));
  CHECK(Exists(folder / "x"));
  CHECK_FALSE(Exists(folder / "x/c"));
  CHECK_FALSE(Exists(folder / "x/a/c"));
  CHECK(NotSaid(ListFolder(folder / "none").status(), "none", "cannot list") == "");
  CHECK(NotSaid(MakeFolder(folder / "x/a/z"), "x/a/z", "cannot make the folder") == "");
  CHECK_FALSE(MakeFolder(folder / "x/a").ok());
}

TEST_CASE("a JSON syntax error has its line") {
  const auto line_of = [](std::string_view text) {
    const auto parsed = ParseJson(text, "c.json");
    REQUIRE_FALSE(parsed.ok());
    CHECK(NotSaid(parsed.status(), "c.json", "not valid JSON") == "");
    return DetailOf(parsed.status())->line;
  };
  CHECK(line_of("{\n\"a\": 1,\n\"b\" 2\n}") == 3);
  CHECK(line_of("") == 1);
  CHECK(line_of("{\"a\": 1") == 1);
  CHECK(line_of("[1,\n\n2") == 3);
  CHECK(line_of("\n\xff") == 2);
  CHECK(NotSaid(ParseJson("[1e999]", "c.json").status(), "c.json", "not valid JSON") == "");
}

TEST_CASE("JSON nesting is limited") {
  CHECK(ParseJson(std::string(200, '[') + std::string(200, ']'), "f").ok());
  CHECK(NotSaid(ParseJson(std::string(300, '[') + std::string(300, ']'), "f").status(), "nested") == "");
  CHECK_FALSE(ParseJson(std::string(5'000'000, '['), "f").ok());
}

TEST_CASE("a JSON key that stands twice is the last one, or an error") {
  const char text[] = R"({"a": {"b": 1, "c": 2, "b": 3}, "d": {"b": 1}})";
  const auto lenient = ParseJson(text, "f");
  REQUIRE(lenient.ok());
  CHECK((*lenient)["a"]["b"] == 3);
  CHECK(NotSaid(ParseJson(text, "f", {.reject_duplicate_keys = true}).status(), "b", "twice") == "");
  CHECK(ParseJson(R"({"a": {"b": 1}, "b": {"a": 1}})", "f", {.reject_duplicate_keys = true}).ok());
}

TEST_CASE("JSON fields have their types checked") {
  const auto parsed =
      ParseJson(R"({"i": 3, "f": 1.5, "b": true, "s": "x", "n": null, "big": 9223372036854775808})", "c");
  REQUIRE(parsed.ok());
  const nlohmann::json& json = *parsed;
  CHECK(*RequiredField<int64_t>(json, "i", "c") == 3);
  CHECK(*RequiredField<double>(json, "i", "c") == 3.0);
  CHECK(*RequiredField<double>(json, "f", "c") == 1.5);
  CHECK(*RequiredField<bool>(json, "b", "c"));
  CHECK(*RequiredField<std::string>(json, "s", "c") == "x");
  CHECK(*FieldOr<int64_t>(json, "n", 7, "c") == 7);
  CHECK(*FieldOr<int64_t>(json, "absent", 7, "c") == 7);
  CHECK(NotSaid(RequiredField<int64_t>(json, "absent", "c").status(), "c:", "absent", "missing") == "");
  CHECK(NotSaid(RequiredField<int64_t>(json, "n", "c").status(), "n", "null", "an integer") == "");
  CHECK(NotSaid(RequiredField<int64_t>(json, "f", "c").status(), "f", "1.5", "an integer") == "");
  CHECK(NotSaid(RequiredField<int64_t>(json, "big", "c").status(), "big", "an integer") == "");
  CHECK(NotSaid(FieldOr<bool>(json, "i", true, "c").status(), "i", "3", "true or false") == "");
  CHECK(NotSaid(FieldOr<std::string>(json, "i", "", "c").status(), "a string") == "");
  CHECK(NotSaid(RequiredField<double>(nlohmann::json::array(), "x", "c").status(), "missing") == "");
}

TEST_CASE("an excerpt is short and whole characters") {
  const std::string text = Excerpt(nlohmann::json(std::string(78, 'a') + "ää"));
  CHECK(text.size() < 90);
  CHECK(Excerpt("é") == "\"é\"");
  CHECK(text.ends_with("…"));
  CHECK(nlohmann::json::accept("\"" + text.substr(1) + "\""));  // UTF-8
}

}  // namespace
}  // namespace ftune
