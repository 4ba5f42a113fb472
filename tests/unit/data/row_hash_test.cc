#include "data/source/row_hash.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

#include "data/file/json_row.h"

namespace ftune {
namespace {

uint64_t HashOf(const std::string& json) {
  const absl::StatusOr<OrderedJson> row = ParseJsonRow(json, {"f.jsonl", 1}, 1);
  CAPTURE(json);
  REQUIRE(row.ok());
  return HashRow(*row);
}

TEST_CASE("the spelling of a row does not change its hash") {
  const uint64_t hash = HashOf(R"({"a":"é","b":[1,{"c":null,"d":-2.5e1}]})");
  CHECK(HashOf(R"( { "a" : "é", "b" : [ 1, {"c": null, "d": -2.5e1} ] } )") == hash);
  CHECK(HashOf(R"({"b": [1, {"d": -25.0, "c": null}], "a": "\u00e9"})") == hash);
}

TEST_CASE("any value, and its type, changes a row's hash") {
  const std::set<std::string> rows = {R"({})",
                                      R"({"a": null})",
                                      R"({"a": 0})",
                                      R"({"a": 1})",
                                      R"({"a": -1})",
                                      R"({"a": 1.0})",
                                      R"({"a": 1.5})",
                                      R"({"a": "1"})",
                                      R"({"a": true})",
                                      R"({"a": false})",
                                      R"({"a": ""})",
                                      R"({"a": []})",
                                      R"({"a": {}})",
                                      R"({"a": [1]})",
                                      R"({"a": [[1]]})",
                                      R"({"a": [1, 2]})",
                                      R"({"a": [2, 1]})",
                                      R"({"a": [[1], 2]})",
                                      R"({"a": [[1, 2]]})",
                                      R"({"a": ["b", "c"]})",
                                      R"({"a": ["bc"]})",
                                      R"({"a": ["", "bc"]})",
                                      R"({"a": {"b": "c"}})",
                                      R"({"b": 1})",
                                      R"({"a": 1, "b": null})",
                                      R"({"a": 18446744073709551615})",
                                      R"({"a": "null"})",
                                      R"({"a": ["b\"", "c"]})",
                                      R"({"a": ["b", "\"c"]})",
                                      R"({"ab": ""})"};
  std::set<uint64_t> hashes;
  for (const std::string& row : rows) hashes.insert(HashOf(row));
  CHECK(hashes.size() == rows.size());
}

TEST_CASE("the hash of a row is the same for ever") {
  CHECK(HashOf(R"({"text": "one"})") == 8697159394861104252u);
}

}  // namespace
}  // namespace ftune
