// JSON lists, alone and as an object's member, element by element.
#include <doctest/doctest.h>

#include <fstream>

#include "block_checks.h"
#include "files.h"

namespace ftune {
namespace {

using Strings = std::vector<std::string>;

ReadRows ReadJson(std::string_view text, const OpenOptions& options = {}) {
  const TempFolder folder;
  return ReadPath(folder.Write("a.json", text), options);
}

TEST_CASE("a list's elements, over lines and in one") {
  const ReadRows read =
      ReadJson("\xEF\xBB\xBF \n[ {\"a\": \"],}\\\"\"} ,\n\n  {\n \"b\": [{}, [1,2]]\n} ,{\"c\":1}\n]\n\n");
  CHECK(read.error.ok());
  CHECK(read.rows == Strings{R"({"a":"],}\""})", R"({"b":[{},[1,2]]})", R"({"c":1})"});
  CHECK(read.lines == std::vector<int64_t>{2, 4, 6});
  CHECK(ReadJson("[{\"a\":1}]").rows == Strings{R"({"a":1})"});
  CHECK(ReadJson("[{\"a\":\"\\\\\"},{\"b\":\"\\\\\\\"\"}]").rows ==
        Strings{R"({"a":"\\"})", R"({"b":"\\\""})"});
}

TEST_CASE("a list is told by its bracket, whatever the name") {
  const TempFolder folder;
  CHECK(ReadPath(folder.Write("a.jsonl", "[{\"a\":1},\n{\"b\":2}]")).rows ==
        Strings{R"({"a":1})", R"({"b":2})"});
  CHECK(ReadPath(folder.Write("rows", "[{\"a\":1}]")).rows == Strings{R"({"a":1})"});
  CHECK(ReadPath(folder.Write("rows", "{\"a\":1}\n")).rows == Strings{R"({"a":1})"});
  CheckDataError(ReadPath(folder.Write("rows", "a,b\n1,2\n")).error, "neither the name nor the first byte",
                 0);
}

TEST_CASE("the list of an object") {
  CHECK(ReadJson("{\"data\": [{\"a\":1},{\"a\":2}]}").rows == Strings{R"({"a":1})", R"({"a":2})"});
  const ReadRows read = ReadJson(
      "{\n \"version\": \"1[\\\"\", \"tags\": [\"x\", [{}]], \"none\": [],\n \"messages\": [{}], \"info\": "
      "{\"data\": [{}]},\n"
      " \"data\" :\n [ {\"a\":1},\n{\"a\":2} ] , \"more\": [1]}\n");
  CHECK(read.error.ok());
  CHECK(read.rows == Strings{R"({"a":1})", R"({"a":2})"});
  CHECK(read.lines == std::vector<int64_t>{5, 6});
  CheckDataError(ReadJson("{\"train\": [{\"a\":1}],\n \"test\": [{\"a\":1}]}").error, "train and test", 2);
}

TEST_CASE("an object a line is a row, whatever lists it has") {
  CHECK(ReadJson("{\"qa\": [{\"a\":1}]}\n{\"qa\": [{\"a\":2}]}\n").rows.size() == 2);
  CHECK(ReadJson("{\"messages\": [{\"a\":1}]}").rows == Strings{R"({"messages":[{"a":1}]})"});
  CHECK(ReadJson("{\"text\": \"a\"}\n").rows == Strings{R"({"text":"a"})"});
  CheckDataError(ReadJson("{\n \"text\": \"a\"\n}\n").error, "one object over several lines", 1);
  // What a row a line is not is left to its lines.
  CheckDataError(ReadJson("{\"text\": \"a\n{\"text\": \"b\"}\n").error, "not valid JSON", 1);
}

TEST_CASE("lists that are broken name the line and column") {
  CheckDataError(ReadJson("[]").error, "an empty list", 0);
  CheckDataError(ReadJson("[{\"a\":1},\n]").error, "column 1; found ']', expected an element", 2);
  CheckDataError(ReadJson("[{\"a\":1},\n,{}]").error, "found ',', expected an element", 2);
  CheckDataError(ReadJson("[{\"a\":1},\n {\"b\":[1}]\n").error, "column 9; found '}', expected ']'", 2);
  CheckDataError(ReadJson("[{\"a\":1}}\n").error, "column 9; found '}', expected ',' or ']'", 1);
  CheckDataError(ReadJson("[{\"a\":1}]\n[{\"a\":1}]").error,
                 "column 1; found '[', expected the end of the file", 2);
  CheckDataError(ReadJson("[{\"a\":1},\n{\"b\":\n2").error, "ends within the element that begins here", 2);
  CheckDataError(ReadJson("[{\"a\":1},\n{\"b\":\"]}").error, "ends within the element that begins here", 2);
  CheckDataError(ReadJson("[{\"a\":1}\n").error, "ends within the element", 1);
  CheckDataError(ReadJson("[{\"a\":1},\n").error, "ends before its JSON does", 2);
  CheckDataError(ReadJson("{\"data\":[{\"a\":1}]\n").error, "ends before its JSON does", 2);
  CheckDataError(ReadJson("{\"data\":[{\"a\":1}] \"b\":1}").error, "expected ',' or '}'", 1);
  CheckDataError(ReadJson("{\"data\":[{\"a\":1}], b:1}").error, "expected a key in quotes", 1);
  CheckDataError(ReadJson("{\"data\":[{\"a\":1}], \"b\" 1}").error, "expected ':'", 1);
}

TEST_CASE("elements that are broken are errors of their rows") {
  CheckDataError(ReadJson("[{\"a\":1},\n\n  {\"b\": }]").error, "not valid JSON at column 9", 3);
  CheckDataError(ReadJson("[{\"a\":1}, {\"b\":\n tru }]").error, "not valid JSON at column 5", 2);
  CheckDataError(ReadJson("[{\"a\":1}, {\"b\" 1}]").error, "not valid JSON at column 16", 1);
  CheckDataError(ReadJson("[{\"a\":1}\n {\"b\":1}]").error, "not valid JSON at column 2", 2);
  CheckDataError(ReadJson("[\"one\", \"two\"]").error, "found \"one\", expected a JSON object", 1);
  CheckDataError(ReadJson("[{\"a\":\"\xFF\"}]").error, "not UTF-8 at byte 8 of the line", 1);
}

TEST_CASE("rows and blocks do not depend on the pieces that are read") {
  std::string text = "{\"x\": [1, \"[{\"],\n\"data\": [";
  for (int i = 0; i < 40; ++i) {
    text += i == 0 ? "\n" : i % 3 == 0 ? ", \n" : ",";
    text += "{\"n\":" + std::to_string(i) + ",\"t\":\"" + std::string((i * 37) % 60, 'x') + "\\\\\"\n}";
  }
  text += "] , \"y\": {\"z\": \"]\"}}\n";
  const ReadRows all = ReadJson(text);
  REQUIRE(all.error.message() == "");
  REQUIRE(all.rows.size() == 40);
  for (const size_t block_bytes : {1, 10, 100, 700}) {
    OpenOptions options;
    options.block_bytes = block_bytes;
    const ReadRows expected = ReadJson(text, options);
    CHECK(expected.rows == all.rows);
    CHECK(expected.lines == all.lines);
    for (size_t read_bytes = 1; read_bytes < 60; read_bytes += 1 + read_bytes / 3) {
      options.read_bytes = read_bytes;
      CHECK(ReadJson(text, options).blocks == expected.blocks);
    }
  }
}

TEST_CASE("real lists") {
  for (const char* name : {"llamafactory/alpaca_en_demo.json", "llamafactory/glaive_toolcall_en_demo.json",
                           "sharegpt/fastchat_dummy_conversation.json", "torchtune/alpaca_tiny.json"}) {
    const auto path = Material(std::string("datasets/") + name);
    if (path.empty()) continue;
    const OrderedJson expected = OrderedJson::parse(std::ifstream(path));
    OpenOptions options;
    options.block_bytes = 10'000;
    options.read_bytes = 1000;
    const ReadRows read = ReadPath(path.string(), options);
    CHECK(read.error.message() == "");
    REQUIRE(read.rows.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) CHECK(read.rows[i] == expected[i].dump());
  }
}

}  // namespace
}  // namespace ftune
