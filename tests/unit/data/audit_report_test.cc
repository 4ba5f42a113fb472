#include "data/audit/audit_report.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/strings.h"
#include "data/source/sample_builder.h"
#include "fakes.h"

namespace ftune {
namespace {

AuditCounts CountsOf(const Tokenizer& tokenizer, RowFormat format, std::vector<const char*> rows,
                     const SampleOptions& options = {}) {
  const ChatMl chat_template;
  const SampleBuilder builder(tokenizer, &chat_template, options);
  AuditCounts counts;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto built =
        builder.Build(OrderedJson::parse(rows[i]), format, {"f.jsonl", static_cast<int64_t>(i) + 1});
    REQUIRE_MESSAGE(built.ok(), built.status().message());
    counts.Merge(built->audit);
  }
  return counts;
}

constexpr char kChat[] =
    R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Yes"}]})";
constexpr char kUntrained[] =
    R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Yes", "weight": 0}]})";

void CheckStops(const AuditReport& report, const AuditLimits& limits, const std::string& place,
                const std::string& key) {
  const absl::Status status = report.Check(limits);
  REQUIRE_FALSE(status.ok());
  INFO(std::string(status.message()));
  CHECK(ExitCodeOf(status) == 4);
  CHECK(DetailOf(status)->file == place);
  CHECK(DetailOf(status)->key == "data.audit." + key);
  CHECK_FALSE(DetailOf(status)->hint.empty());
}

TEST_CASE("a conversation's tokens by role, its end, its BOS") {
  const GreedyTokenizer tokenizer;
  const AuditCounts counts = CountsOf(tokenizer, RowFormat::kMessages, {kChat, kUntrained});
  CHECK(counts.samples == 2);
  CHECK(counts.formats == std::map<std::string, int64_t>{{"messages", 2}});
  CHECK(counts.trained_tokens == 4);  // Y e s <|im_end|>
  CHECK(counts.roles.at("assistant").trained_tokens == 4);
  CHECK(counts.roles.at("user").trained_tokens == 0);
  CHECK(counts.roles.at("user").tokens > 0);
  CHECK(counts.untrained_samples == 1);
  CHECK(counts.first_untrained == "f.jsonl:2");
  CHECK(counts.bos_samples == std::array<int64_t, 3>{2, 0, 0});
  const int32_t end = *tokenizer.TokenToId("<|im_end|>");
  REQUIRE(counts.endings.size() == 1);
  CHECK(counts.endings.at(end) == AuditCounts::Ending{1, "f.jsonl:1"});

  const AuditReport report(counts, {end}, tokenizer);
  CHECK(report.Check({}).ok());
  CHECK(report.ToJson()["open_turns"] == 0);
  const std::string lines = StrJoin(report.Lines(), "\n");
  INFO(lines);
  CHECK(lines.find("2 from messages rows") != std::string::npos);
  CHECK(lines.find("assistant 4 of ") != std::string::npos);
  CHECK(lines.find("1 of 1 trained turns (100 %) end as generation does, with <|im_end|> (1)") !=
        std::string::npos);
  CHECK(lines.find("the first is f.jsonl:2") != std::string::npos);
  CHECK(lines.find("warning") == std::string::npos);
}

TEST_CASE("each limit stops, at exactly its share not yet") {
  const GreedyTokenizer tokenizer;
  const AuditCounts counts = CountsOf(tokenizer, RowFormat::kMessages, {kChat, kUntrained, kChat});
  const int32_t end = *tokenizer.TokenToId("<|im_end|>");
  const AuditReport stopping(counts, {end}, tokenizer);
  CHECK(stopping.Check({.max_untrained_samples = 1.0 / 3}).ok());
  CheckStops(stopping, {.max_untrained_samples = 0.33}, "f.jsonl:2", "max_untrained_samples");
  CheckStops(stopping, {.min_trained_tokens = 0.9}, "", "min_trained_tokens");

  // Generation stops on something else: the model would never stop.
  const AuditReport open(counts, {*tokenizer.TokenToId("</s>")}, tokenizer);
  CheckStops(open, {}, "f.jsonl:1", "max_open_turns");
  CHECK(open.Check({.max_open_turns = 1}).ok());
  CHECK(StrJoin(open.Lines(), "\n")
            .find("warning: 2 of 2 trained turns (100 %) end with <|im_end|> (2), but "
                  "generation stops on </s>; the first is f.jsonl:1") != std::string::npos);
}

TEST_CASE("a doubled BOS is taken out of texts and told, and stops where it stands in ids") {
  const GreedyTokenizer tokenizer({}, /*adds_bos=*/true);
  const AuditCounts text = CountsOf(tokenizer, RowFormat::kText, {R"({"text": "<s>a"})", R"({"text": "a"})"});
  CHECK(text.bos_samples == std::array<int64_t, 3>{0, 2, 0});
  CHECK(text.mended_bos == 1);
  CHECK(AuditReport(text, {}, tokenizer).Check({}).ok());
  const AuditCounts ids = CountsOf(tokenizer, RowFormat::kTokens,
                                   {R"({"input_ids": [5, 6]})", R"({"input_ids": [256, 256, 5]})"});
  CHECK(ids.bos_samples == std::array<int64_t, 3>{1, 0, 1});
  CheckStops(AuditReport(ids, {}, tokenizer), {}, "f.jsonl:2", "max_doubled_bos");
  CHECK(AuditReport(ids, {}, tokenizer).Check({.max_doubled_bos = 0.5}).ok());
}

TEST_CASE("rows of which nothing is left stop beyond their share, with reasons, place and advice") {
  const GreedyTokenizer tokenizer;
  AuditCounts counts = CountsOf(tokenizer, RowFormat::kMessages, {kChat});
  counts.rows = 8;
  counts.lost = {{"bad_row", 3}, {"too_long", 2}};
  counts.first_lost = "f.jsonl:4";
  const AuditReport report(counts, {*tokenizer.TokenToId("<|im_end|>")}, tokenizer);
  CheckStops(report, {}, "f.jsonl:4", "max_dropped_rows");
  CHECK(report.Check({.max_dropped_rows = 5.0 / 8}).ok());
  const auto detail = DetailOf(report.Check({}));
  CHECK(detail->found == "5 of 8 rows (62.5 %), 3 bad_row, 2 too_long");
  for (const char* key : {"on_bad_row", "sequence_len", "excess_length_strategy"}) {
    CHECK(detail->hint.find(key) != std::string::npos);
  }
  CHECK(detail->hint.find("train_on_inputs") == std::string::npos);
  CHECK(StrJoin(report.Lines(), "\n").find("warning: of 5 of 8 rows (62.5 %) nothing is left: 3 bad_row") !=
        std::string::npos);
}

TEST_CASE("a turn whose end truncation cuts off is open; one that is cut off whole is none") {
  const GreedyTokenizer tokenizer;
  const int32_t end = *tokenizer.TokenToId("<|im_end|>");
  const auto turns = [&](int64_t length, TruncationSide side = TruncationSide::kRight) {
    const AuditCounts counts = CountsOf(
        tokenizer, RowFormat::kMessages, {kChat},
        {.sequence_len = length, .excess_length_strategy = ExcessTokens::kTruncate, .truncation_side = side});
    const nlohmann::ordered_json json = AuditReport(counts, {end}, tokenizer).ToJson();
    return std::pair(json["trained_turns"].get<int>(), json["open_turns"].get<int>());
  };
  // <|im_start|>user⏎hi<|im_end|>⏎<|im_start|>assistant⏎ are 21 tokens, Yes<|im_end|> four.
  CHECK(turns(25) == std::pair(1, 0));
  CHECK(turns(24) == std::pair(1, 1));
  CHECK(turns(22) == std::pair(1, 1));
  CHECK(turns(21) == std::pair(0, 0));
  CHECK(turns(22, TruncationSide::kLeft) == std::pair(1, 0));
  const AuditReport cut(CountsOf(tokenizer, RowFormat::kMessages, {kUntrained, kChat},
                                 {.sequence_len = 24, .excess_length_strategy = ExcessTokens::kTruncate}),
                        {end}, tokenizer);
  CheckStops(cut, {}, "f.jsonl:2", "max_open_turns");
  CHECK(DetailOf(cut.Check({}))->hint.starts_with("raise data.sequence_len"));
  CHECK(StrJoin(cut.Lines(), "\n").find("1 of 1 trained turns (100 %) end with a cut (1)") !=
        std::string::npos);
}

TEST_CASE("completions end with EOS") {
  const GreedyTokenizer tokenizer;
  const AuditCounts counts =
      CountsOf(tokenizer, RowFormat::kPromptCompletion, {R"({"prompt": "a", "completion": "b"})"});
  CHECK(AuditReport(counts, {*tokenizer.TokenToId("</s>")}, tokenizer).ToJson()["open_turns"] == 0);
  CHECK(AuditReport(counts, {}, tokenizer).ToJson()["open_turns"] == 1);
}

}  // namespace
}  // namespace ftune
