#include "data/source/jsonl.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "files.h"

namespace ftune {
namespace {

struct Read {
  std::vector<int64_t> numbers;
  std::vector<std::string> rows;
  absl::Status error;
};

Read ReadAll(const std::string& path) {
  Read read;
  const auto file = JsonlFile::Open(path);
  read.error = file.status();
  if (!file.ok()) return read;
  for (const JsonlFile::Line& line : file->lines()) {
    read.numbers.push_back(line.number);
    const auto row = file->Parse(line);
    if (!row.ok()) {
      read.error = row.status();
      return read;
    }
    read.rows.push_back(row->dump());
  }
  return read;
}

void CheckError(const absl::Status& status, const std::string& text, int line) {
  REQUIRE_FALSE(status.ok());
  INFO(std::string(status.message()));
  CHECK(ExitCodeOf(status) == 4);
  CHECK(std::string(status.message()).find(text) != std::string::npos);
  CHECK(DetailOf(status)->line == line);
  CHECK_FALSE(DetailOf(status)->file.empty());
}

TEST_CASE("lines: CRLF, a byte-order mark, blank lines and a last line without its end") {
  const TempFolder folder;
  const Read read = ReadAll(folder.Write(
      "a.jsonl", "\xEF\xBB\xBF{\"b\": 1, \"a\": 2}\r\n\n \t\r\n{\"c\": \"\\u00fc\"}\n{\"d\":[]}"));
  CHECK(read.error.ok());
  CHECK(read.numbers == std::vector<int64_t>{1, 4, 5});
  CHECK(read.rows == std::vector<std::string>{R"({"b":1,"a":2})", R"({"c":"ü"})", R"({"d":[]})"});
}

TEST_CASE("files that are not JSON Lines") {
  const TempFolder folder;
  CheckError(ReadAll(folder.path() + "/absent.jsonl").error, "No such file", 0);
  CheckError(ReadAll(folder.path()).error, "a folder", 0);
  CheckError(ReadAll(folder.Write("empty.jsonl", "")).error, "an empty file", 0);
  CheckError(ReadAll(folder.Write("blank.jsonl", "\n \n\r\n")).error, "only blank lines", 0);
  CheckError(ReadAll(folder.Write("utf16.jsonl", "\xFF\xFE{\0")).error, "UTF-16", 0);
  CheckError(ReadAll(folder.Write("list.jsonl", "\n [{\"a\": 1}]\n")).error, "a JSON list", 2);
  CheckError(ReadAll(folder.Write("table.jsonl", "PAR1....")).error, "a Parquet file", 0);
  CheckError(ReadAll(folder.Write("packed.jsonl", "\x1f\x8b\x08....")).error, "a gzip file", 0);
}

TEST_CASE("bad rows name their line") {
  const TempFolder folder;
  CheckError(ReadAll(folder.Write("a.jsonl", "{}\n{\"a\": }\n")).error, "not valid JSON", 2);
  CheckError(ReadAll(folder.Write("b.jsonl", "{}\n\n{\"a\": 1")).error, "not valid JSON", 3);
  CheckError(ReadAll(folder.Write("c.jsonl", "{} {}\n")).error, "not valid JSON", 1);
  CheckError(ReadAll(folder.Write("d.jsonl", "{}\n\"text\"\n")).error, "found \"text\"", 2);
  CheckError(ReadAll(folder.Write("e.jsonl", "{}\n{\"a\": \"x\xFFy\"}\n")).error, "not UTF-8 at byte 9", 2);
  CheckError(ReadAll(folder.Write("f.jsonl", "{\"a\": 1e999}\n")).error, "not valid JSON", 1);
  CheckError(ReadAll(folder.Write("g.jsonl", std::string("{\"a\": \"\0\"}\n", 11))).error, "not valid JSON",
             1);
}

TEST_CASE("nesting is bounded") {
  const TempFolder folder;
  const auto nested = [](int depth) {
    return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  CHECK(ReadAll(folder.Write("ok.jsonl", nested(200))).error.ok());
  CheckError(ReadAll(folder.Write("deep.jsonl", nested(100'000))).error, "nested too deeply", 1);
}

TEST_CASE("UTF-8 errors count lines of a document") {
  CHECK(CheckUtf8("a\nü\n", {"f", 1}).ok());
  CheckError(CheckUtf8("a\nb\nc\xC3", {"f", 1}), "not UTF-8 at byte 2", 3);
}

}  // namespace
}  // namespace ftune
