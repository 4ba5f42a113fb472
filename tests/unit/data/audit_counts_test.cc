#include "data/audit/audit_counts.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace ftune {
namespace {

AuditCounts Some() {
  AuditCounts counts;
  counts.rows = 5;
  counts.lost = {{"bad_row", 2}};
  counts.first_lost = "a.jsonl:4";
  counts.first_lost_message = "broken";
  counts.cut_turns = 1;
  counts.first_cut = "a.jsonl:5";
  counts.samples = 3;
  counts.tokens = 40;
  counts.trained_tokens = 15;
  counts.untrained_samples = 1;
  counts.bos_samples = {1, 0, 2};
  counts.roles["assistant"] = {20, 15};
  counts.roles["user"] = {9, 0};
  counts.mended_bos = 1;
  counts.formats = {{"sharegpt", 3}};
  counts.endings = {{2, {1, "a.jsonl:1"}}, {7, {1, "a.jsonl:3"}}};
  counts.first_untrained = "a.jsonl:2";
  return counts;
}

TEST_CASE("the counts of parts merge into those of the whole, the first places stay") {
  AuditCounts later;
  later.rows = 3;
  later.lost = {{"bad_row", 1}, {"too_long", 1}};
  later.first_lost = "b.jsonl:7";
  later.cut_turns = 2;
  later.first_cut = "b.jsonl:8";
  later.samples = 2;
  later.bos_samples = {0, 2, 0};
  later.formats = {{"sharegpt", 1}, {"text", 1}};
  later.roles["tool"] = {5, 0};
  later.roles["user"] = {6, 1};
  later.endings = {{2, {4, "b.jsonl:1"}}, {9, {1, "b.jsonl:2"}}};
  later.first_doubled_bos = "b.jsonl:2";
  AuditCounts sum = Some();
  sum.Merge(later);
  CHECK(sum.rows == 8);
  CHECK(sum.lost == std::map<std::string, int64_t>{{"bad_row", 3}, {"too_long", 1}});
  CHECK(sum.first_lost == "a.jsonl:4");
  CHECK(sum.first_lost_message == "broken");
  CHECK(sum.cut_turns == 3);
  CHECK(sum.first_cut == "a.jsonl:5");
  CHECK(sum.samples == 5);
  CHECK(sum.tokens == 40);
  CHECK(sum.bos_samples == std::array<int64_t, 3>{1, 2, 2});
  CHECK(sum.roles.size() == 3);
  CHECK(sum.formats == std::map<std::string, int64_t>{{"sharegpt", 4}, {"text", 1}});
  CHECK(sum.roles["user"] == AuditCounts::Role{15, 1});
  CHECK(sum.endings.size() == 3);
  CHECK(sum.endings[2] == AuditCounts::Ending{5, "a.jsonl:1"});
  CHECK(sum.endings[9] == AuditCounts::Ending{1, "b.jsonl:2"});
  CHECK(sum.mended_bos == 1);
  CHECK(sum.first_untrained == "a.jsonl:2");
  CHECK(sum.first_doubled_bos == "b.jsonl:2");
}

TEST_CASE("counts written and read are the same; what is missing or wrong is named") {
  const nlohmann::json json = Some().ToJson();
  const auto read = AuditCounts::FromJson(json, "audit.json");
  REQUIRE(read.ok());
  CHECK(*read == Some());
  for (const auto& item : json.items()) {
    for (const nlohmann::json& value : {nlohmann::json(), nlohmann::json("x"), nlohmann::json(1.5)}) {
      if (item.value().is_string() && value.is_string()) continue;
      nlohmann::json broken = json;
      broken[item.key()] = value;
      const auto refused = AuditCounts::FromJson(broken, "audit.json");
      REQUIRE_FALSE(refused.ok());
      CHECK(DetailOf(refused.status())->key == item.key());
    }
  }
  nlohmann::json broken = json;
  broken["roles"]["user"].erase("tokens");
  CHECK_FALSE(AuditCounts::FromJson(broken, "audit.json").ok());
  CHECK_FALSE(AuditCounts::FromJson(nlohmann::json::array(), "audit.json").ok());
}

}  // namespace
}  // namespace ftune
