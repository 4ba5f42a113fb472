// JSON Lines and documents in blocks, and what is wrong with rows of JSON.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <functional>

#include "block_checks.h"
#include "files.h"

namespace ftune {
namespace {

TEST_CASE("lines: CRLF, a byte-order mark, blank lines and a last line without its end") {
  const TempFolder folder;
  const ReadRows read = ReadPath(folder.Write(
      "a.jsonl", "\xEF\xBB\xBF{\"b\": 1, \"a\": 2}\r\n\n \t\r\n{\"c\": \"\\u00fc\"}\n{\"d\":[]}"));
  CHECK(read.error.ok());
  CHECK(read.lines == std::vector<int64_t>{1, 4, 5});
  CHECK(read.rows == std::vector<std::string>{R"({"b":1,"a":2})", R"({"c":"ü"})", R"({"d":[]})"});
}

TEST_CASE("blocks are cut by what the file holds, whatever it is read in") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += "{\"n\":" + std::to_string(i) + ",\"t\":\"" + std::string((i * 37) % 90, 'x') + "\"}\n";
    if (i % 7 == 0) text += std::string(i % 50, '\n');
  }
  const std::string path = folder.Write("a.jsonl", text);
  const ReadRows all = ReadPath(path);
  REQUIRE(all.error.ok());
  REQUIRE(all.rows.size() == 200);
  CHECK(all.blocks.size() == 1);
  for (const size_t block_bytes : {1, 10, 100, 333, 5000}) {
    OpenOptions options;
    options.block_bytes = block_bytes;
    options.read_bytes = 1 << 20;
    const ReadRows expected = ReadPath(path, options);
    CHECK(expected.rows == all.rows);
    CHECK(expected.lines == all.lines);
    for (const std::string& block : expected.blocks) {
      CHECK((block.size() <= block_bytes || std::count(block.begin(), block.end(), '\n') == 0));
    }
    for (const size_t read_bytes : {1, 2, 3, 7, 64, 1000}) {
      options.read_bytes = read_bytes;
      CHECK(ReadPath(path, options).blocks == expected.blocks);
    }
  }
  OpenOptions options;
  options.block_rows = 3;
  CHECK(ReadPath(path, options).blocks.size() == 67);
}

TEST_CASE("a row longer than a block is a block of its own; beyond a limit it is refused") {
  const TempFolder folder;
  const std::string path =
      folder.Write("a.jsonl", "{\"a\":1}\n{\"a\":2}\n{\"b\":\"" + std::string(10'000'000, 'x') +
                                  "\"}\n{\"a\":3}\n{\"a\":4}\n");
  const ReadRows read = ReadPath(path);
  CHECK(read.error.ok());
  CHECK(read.rows.size() == 5);
  CHECK(read.blocks.size() == 3);
  OpenOptions options;
  options.max_row_bytes = 9 << 20;
  CheckDataError(ReadPath(path, options).error, "a line does not end within 9 MiB", 3);
}

TEST_CASE("files without rows, of other kinds, and no files") {
  const TempFolder folder;
  CheckDataError(ReadPath(folder.path() + "/absent.jsonl").error, "No such file", 0);
  CheckDataError(ReadPath(folder.Write("empty.jsonl", "")).error, "an empty file", 0);
  CheckDataError(ReadPath(folder.Write("blank.jsonl", "\n \n\r\n")).error, "only blank lines", 0);
  CheckDataError(ReadPath(folder.Write("marked.jsonl", "\xEF\xBB\xBF")).error, "only blank lines", 0);
  CheckDataError(ReadPath(folder.Write("le.jsonl", std::string("\xFF\xFE{\0", 4))).error, "UTF-16", 0);
  CheckDataError(ReadPath(folder.Write("be.jsonl", std::string("\0{\0\"", 4))).error, "UTF-16", 0);
  CheckDataError(ReadPath(folder.Write("32.jsonl", std::string("\xFF\xFE\0\0{\0\0\0", 8))).error, "UTF-32",
                 0);
  CheckDataError(ReadPath(folder.Write("a.jsonl", "PK\x03\x04....")).error, "a zip file", 0);

  REQUIRE(mkfifo((folder.path() + "/pipe.jsonl").c_str(), 0600) == 0);
  CheckDataError(ReadPath(folder.path() + "/pipe.jsonl").error, "found a pipe", 0);
}

TEST_CASE("a symbolic link is the file that it points to") {
  const TempFolder folder;
  folder.Write("a.jsonl", "{\"a\":1}\n");
  std::filesystem::create_symlink("a.jsonl", folder.path() + "/link.jsonl");
  CHECK(ReadPath(folder.path() + "/link.jsonl").rows == std::vector<std::string>{R"({"a":1})"});
  std::filesystem::create_symlink("nowhere.jsonl", folder.path() + "/broken.jsonl");
  CheckDataError(ReadPath(folder.path() + "/broken.jsonl").error, "No such file", 0);
}

TEST_CASE("a file that changes while it is read") {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "{\"a\":1}\n";
  OpenOptions options;
  options.block_bytes = 1000;
  options.read_bytes = 1000;
  const auto change_after_a_block = [&](const std::function<void(const std::string&)>& change) {
    const std::string path = folder.Write("a.jsonl", text);
    auto reader = OpenBlocks(path, options);
    REQUIRE(reader.ok());
    REQUIRE((*reader)->Next().ok());
    change(path);
    return ReadBlocks(reader).error;
  };
  CheckDataError(
      change_after_a_block([](const std::string& path) { std::filesystem::resize_file(path, 4000); }),
      "the file changed while it was being read; found 4000 bytes, expected 8000 bytes", 0);
  CheckDataError(change_after_a_block(
                     [](const std::string& path) { std::ofstream(path, std::ios::app) << "{\"a\":2}\n"; }),
                 "found 8008 bytes", 0);
  CheckDataError(change_after_a_block([](const std::string& path) {
                   const timespec times[2] = {{0, UTIME_OMIT}, {1, 0}};
                   REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
                 }),
                 "another time of writing", 0);
  CHECK(change_after_a_block([](const std::string&) {}).ok());
}

TEST_CASE("bad rows name their line and column") {
  const TempFolder folder;
  const auto error = [&](std::string_view text) { return ReadPath(folder.Write("a.jsonl", text)).error; };
  CheckDataError(error("{}\n{\"a\": }\n"), "not valid JSON at column 7: ", 2);
  CheckDataError(error("{}\n{\"a\": }\n"), "unexpected '}'; expected '[', '{', or a literal", 2);
  CheckDataError(error("{}\n\n{\"a\": 1"), "not valid JSON at column 8: ", 3);
  CheckDataError(error("{} {}\n"), "not valid JSON at column 4: ", 1);
  CheckDataError(error("{}\n\"text\"\n"), "found \"text\"", 2);
  CheckDataError(error("{}\n{\"a\": \"x\xFFy\"}\n"), "not UTF-8 at byte 9", 2);
  CheckDataError(error("{}\n{\"a\": \"x\xED\xA0\x80y\"}\n"), "not UTF-8 at byte 9", 2);
  CheckDataError(error("{\"a\": 1e999}\n"), "not valid JSON", 1);
  CheckDataError(error("{\"a\": NaN}\n"), "not valid JSON at column 7", 1);
  CheckDataError(error(std::string_view("{\"a\": \"\0\"}\n", 11)), "not valid JSON at column 8", 1);
  CheckDataError(error("{\"a\": \"" + std::string(100'000, 'x') + "\n"), "missing closing quote", 1);
  CHECK(error("{\"a\": \"" + std::string(100'000, 'x') + "\n").message().size() < 500);
}

TEST_CASE("keys that stand twice in an object") {
  const TempFolder folder;
  const auto error = [&](std::string_view text) { return ReadPath(folder.Write("a.jsonl", text)).error; };
  CheckDataError(error("{}\n{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}\n"), "c: the key stands twice", 2);
  CHECK(error("{\"a\": {\"a\": {\"a\": 1}}, \"b\": [{\"a\": 1}, {\"a\": 1}]}\n").ok());

  std::string many = "{";
  for (int i = 0; i < 300'000; ++i) many += "\"" + std::to_string(i) + "\":0,";
  CHECK(error(many + "\"x\":0}").ok());
  CheckDataError(error(many + "\"299999\":0}"), "299999: the key stands twice", 1);
  CheckDataError(error("{\"\": 1, \"\": 2}"), "the key stands twice", 1);
}

TEST_CASE("nesting is bounded") {
  const TempFolder folder;
  const auto nested = [&](int depth) {
    return ReadPath(
               folder.Write("a.jsonl", "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"))
        .error;
  };
  CHECK(nested(255).ok());
  CheckDataError(nested(256), "nested too deeply", 1);
  CheckDataError(nested(1'000'000), "nested too deeply", 1);
}

TEST_CASE("values keep their order and types") {
  const TempFolder folder;
  const std::string row =
      R"({"z":[1,-2,3.5,true,false,null,"\u00e9\n"],"a":{"y":{},"b":[]},"big":18446744073709551615,"k":[[{"c":1}]]})";
  const ReadRows read = ReadPath(folder.Write("a.jsonl", row));
  CHECK(read.error.ok());
  CHECK(read.rows == std::vector<std::string>{OrderedJson::parse(row).dump()});
}

TEST_CASE("a document is one row") {
  const TempFolder folder;
  const ReadRows read = ReadPath(folder.Write("a.txt", "\xEF\xBB\xBFone\n\ntwo\r\n"));
  CHECK(read.error.ok());
  CHECK(read.rows == std::vector<std::string>{R"({"text":"one\n\ntwo\r\n"})"});
  OpenOptions options;
  options.read_bytes = 1;
  CHECK(ReadPath(folder.Write("a.txt", "one\n\ntwo"), options).rows ==
        std::vector<std::string>{R"({"text":"one\n\ntwo"})"});
  options.max_row_bytes = 7;
  CheckDataError(ReadPath(folder.Write("a.txt", "one\n\ntwo"), options).error, "a document of more than", 0);
  CheckDataError(ReadPath(folder.Write("b.txt", "")).error, "an empty file", 0);
  CheckDataError(ReadPath(folder.Write("c.txt", "a\nb\nc\xC3")).error, "not UTF-8 at byte 2", 3);
  CheckDataError(ReadPath(folder.Write("d.txt", std::string_view("a\nb\0c", 5))).error,
                 "a zero byte at byte 2", 2);
}

}  // namespace
}  // namespace ftune
