// CSV and TSV records as objects of strings.
#include <doctest/doctest.h>

#include "block_checks.h"
#include "files.h"

namespace ftune {
namespace {

using Strings = std::vector<std::string>;

ReadRows ReadCsv(std::string_view text, const std::string& name = "a.csv", const OpenOptions& options = {}) {
  const TempFolder folder;
  return ReadPath(folder.Write(name, text), options);
}

TEST_CASE("fields with and without quotes") {
  const ReadRows read =
      ReadCsv("\xEF\xBB\xBFtext,\"the label\"\r\na,b\r\n\"a,\"\"b\"\"\n\r\nc\",\"\"\r\n\r\n,5\" x\nlast,1");
  CHECK(read.error.ok());
  CHECK(read.rows == Strings{R"({"text":"a","the label":"b"})",
                             "{\"text\":\"a,\\\"b\\\"\\n\\r\\nc\",\"the label\":\"\"}",
                             R"({"text":"","the label":"5\" x"})", R"({"text":"last","the label":"1"})"});
  CHECK(read.lines == std::vector<int64_t>{2, 3, 7, 8});
}

TEST_CASE("separators: by the name, or by the header") {
  CHECK(ReadCsv("a\tb\n1,\t2\n", "a.tsv").rows == Strings{R"({"a":"1,","b":"2"})"});
  CHECK(ReadCsv("a;b\n1,;2\n").rows == Strings{R"({"a":"1,","b":"2"})"});
  CHECK(ReadCsv("a\tb\n1,\t2\n").rows == Strings{R"({"a":"1,","b":"2"})"});
  CHECK(ReadCsv("a;x,b\n1,2\n").rows == Strings{R"({"a;x":"1","b":"2"})"});
  CHECK(ReadCsv("\"a,x\";b\n1;2\n").rows == Strings{R"({"a,x":"1","b":"2"})"});
  CHECK(ReadCsv("a,b;c\n1;2\n", "a.tab").rows == Strings{R"({"a,b;c":"1;2"})"});
  CHECK(ReadCsv("a\n\n\"\"\n").rows == Strings{R"({"a":""})"});
}

TEST_CASE("line ends of three kinds count as one each") {
  const ReadRows read = ReadCsv("a,b\r1,\"x\ry\"\r3,4\r\r\n5,6\n\n7,8");
  CHECK(read.error.ok());
  CHECK(read.rows == Strings{R"({"a":"1","b":"x\ry"})", R"({"a":"3","b":"4"})", R"({"a":"5","b":"6"})",
                             R"({"a":"7","b":"8"})"});
  CHECK(read.lines == std::vector<int64_t>{2, 4, 6, 8});
}

TEST_CASE("headers that are refused") {
  CheckDataError(ReadCsv("a,b,a\n1,2,3\n").error, "a: the header names two columns so", 1);
  CheckDataError(ReadCsv("\na,,b\n1,2,3\n").error, "the header has no name for column 2", 2);
  CheckDataError(ReadCsv("a,b\n").error, "a header without records", 0);
  CheckDataError(ReadCsv("\n\n").error, "only blank lines", 0);
  CheckDataError(ReadCsv("").error, "an empty file", 0);
  CheckDataError(ReadCsv("\"a\"b,c\n1,2\n").error, "text behind a closing quote at column 4", 1);
  CheckDataError(ReadCsv("a,\xFF\n1,2\n").error, "not UTF-8 at byte 3", 1);
}

TEST_CASE("records that are refused") {
  CheckDataError(ReadCsv("a,b\n1,2\n3\n").error, "found 1 field, expected 2 as in the header: a, b", 3);
  CheckDataError(ReadCsv("a,b\n1,2,3\n").error, "found 3 fields, expected 2", 2);
  CheckDataError(ReadCsv("a,b\n1,2,\n").error, "found 3 fields, expected 2", 2);
  CheckDataError(ReadCsv("a,b\n1,\"2\"x\n").error, "text behind a closing quote at column 6", 2);
  CheckDataError(ReadCsv("a,b\n1,\"2\n\n3,4\n").error,
                 "ends within a quoted field of the record that begins here", 2);
  CheckDataError(ReadCsv(std::string_view("a,b\n1,2\0\n", 9)).error, "a zero byte at byte 4", 2);
  CheckDataError(ReadCsv("a,b\n1,\"\n\xFF\"\n").error, "not UTF-8 at byte 1", 3);
}

TEST_CASE("text that begins like a container is text") {
  CHECK(ReadCsv("GGUF,PAR1\n1,2\n").rows == Strings{R"({"GGUF":"1","PAR1":"2"})"});
  CHECK(ReadCsv("BZhello", "a.txt").rows == Strings{R"({"text":"BZhello"})"});
}

TEST_CASE("records do not depend on the pieces that are read") {
  std::string text = "a,b\r\n";
  for (int i = 0; i < 60; ++i) {
    text += i % 4 == 0 ? "\"x\"\"\r\n" + std::string(i, ',') + "\"," : std::string(i % 9, 'y') + ",";
    text += i % 3 == 0 ? "\"\"\r\n" : i % 3 == 1 ? "z\r" : "w\n";
  }
  const ReadRows all = ReadCsv(text);
  REQUIRE(all.error.message() == "");
  REQUIRE(all.rows.size() == 60);
  for (const size_t block_bytes : {1, 10, 100, 700}) {
    OpenOptions options;
    options.block_bytes = block_bytes;
    const ReadRows expected = ReadCsv(text, "a.csv", options);
    CHECK(expected.rows == all.rows);
    CHECK(expected.lines == all.lines);
    for (size_t read_bytes = 1; read_bytes < 60; read_bytes += 1 + read_bytes / 3) {
      options.read_bytes = read_bytes;
      CHECK(ReadCsv(text, "a.csv", options).blocks == expected.blocks);
    }
  }
}

}  // namespace
}  // namespace ftune
