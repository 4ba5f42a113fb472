#include "data/source/dataset.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/strings.h"
#include "fakes.h"
#include "files.h"
#include "load_dataset.h"

namespace ftune {
namespace {

const GreedyTokenizer kTokenizer;
const ChatMl kTemplate;

absl::StatusOr<Dataset> Load(const std::vector<DatasetEntry>& entries, const SampleOptions& options = {},
                             int threads = 0) {
  // Small blocks, so that there are many.
  return LoadDataset(entries, kTokenizer, &kTemplate, options, {.threads = threads, .block_bytes = 300});
}

std::vector<std::string> Dropped(const Dataset& dataset) {
  std::vector<std::string> lines;
  CHECK(dataset.store
            ->VisitDropped([&](const DroppedRow& row) {
              lines.push_back(row.ToJson().dump());
              return absl::OkStatus();
            })
            .ok());
  return lines;
}

std::string Chat(const std::string& answer) {
  return R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": ")" + answer +
         "\"}]}\n";
}

void CheckRefused(const std::vector<DatasetEntry>& entries, const std::string& text, int exit_code = 4,
                  int line = 0) {
  const auto dataset = Load(entries);
  REQUIRE_FALSE(dataset.ok());
  const std::string message(dataset.status().message());
  INFO(message);
  CHECK(message.find(text) != std::string::npos);
  CHECK(ExitCodeOf(dataset.status()) == exit_code);
  CHECK(DetailOf(dataset.status())->line == line);
}

TEST_CASE("samples stand in the order of entries and rows, whatever the number of threads") {
  const TempFolder folder;
  std::string chats, texts;
  for (int i = 0; i < 300; ++i) chats += Chat(StrCat("answer ", i, std::string(i % 7, '!')));
  for (int i = 0; i < 50; ++i) texts += StrCat(R"({"text": "text )", i, "\"}\n");
  const std::vector<DatasetEntry> entries = {
      {folder.Write("chats.jsonl", chats)},
      {folder.Write("texts.jsonl", texts), RowFormat::kText, {}, {.weight = 2.0}},
      {folder.Write("book.TXT", "\xEF\xBB\xBFone\r\ntwo")}};
  const auto one = Load(entries, {}, 1);
  REQUIRE(one.ok());
  REQUIRE(one->samples.size() == 351);
  CHECK(TrainedText(CopySample(one->sample(17)), kTokenizer) == "answer 17!!!<|im_end|>");
  CHECK(TrainedText(CopySample(one->sample(303)), kTokenizer) == "text 3</s>");
  CHECK(TrainedText(CopySample(one->sample(350)), kTokenizer) == "one\r\ntwo</s>");
  CHECK(one->info(303).entry == 1);
  CHECK(one->info(303).row == 303);
  REQUIRE(one->mix.size() == 3);
  CHECK(one->mix[1].weight == 2);
  CHECK(one->report.rows == 351);
  CHECK(one->report.dropped.empty());
  int64_t tokens = 0, trained = 0;
  for (int64_t i = 0; i < one->size(); ++i) {
    const Sample sample = CopySample(one->sample(i));
    CHECK(one->info(i).length == sample.size());
    CHECK(one->info(i).trained_tokens == sample.trained_tokens());
    tokens += sample.size();
    trained += sample.trained_tokens();
  }
  CHECK(one->tokens() == tokens);
  CHECK(one->trained_tokens() == trained);

  for (const int threads : {0, 2, 7}) {
    const auto many = Load(entries, {}, threads);
    REQUIRE(many.ok());
    REQUIRE(many->samples.size() == one->samples.size());
    for (int64_t i = 0; i < one->size(); ++i) {
      CHECK(CopySample(many->sample(i)).ids == CopySample(one->sample(i)).ids);
      CHECK(CopySample(many->sample(i)).trained == CopySample(one->sample(i)).trained);
    }
  }
}

TEST_CASE("what is dropped, cut or odd is counted, with its place") {
  const TempFolder folder;
  const std::string path = folder.Write(
      "texts.jsonl", "{\"text\": \"short\"}\n\n{\"text\": \"\"}\n{\"text\": \"much too long for eight\"}\n");
  const std::string chats = folder.Write("chats.jsonl", Chat("a"));
  const auto split = Load({{path}, {chats}}, {.sequence_len = 8});
  REQUIRE(split.ok());
  CHECK(split->report.rows == 4);
  CHECK(split->report.split_rows == 1);
  const std::vector<std::string> dropped = Dropped(*split);
  REQUIRE(dropped.size() == 3);
  CHECK(dropped[1] == StrCat(R"({"file":")", path, R"(","line":4,"row":2,"reason":"split","tokens":24})"));
  CHECK(dropped[0] ==
        StrCat(R"({"file":")", path, R"(","line":3,"row":1,"reason":"nothing_trained","tokens":1})"));
  CHECK(dropped[2] ==
        StrCat(R"({"file":")", chats, R"(","line":1,"row":3,"reason":"too_long","tokens":23})"));

  // Of two samples that a conversation makes by its turns none is cut.
  const std::string two = folder.Write("two.jsonl", R"({"messages": [{"role": "user", "content": "q"}, )"
                                                    R"({"role": "assistant", "content": "a"}, )"
                                                    R"({"role": "user", "content": "q"}, )"
                                                    R"({"role": "assistant", "content": "b"}]})");
  const auto turns = Load({{two, RowFormat::kMessages}}, {.split_turns = SplitTurns::kAlways});
  REQUIRE_MESSAGE(turns.ok(), turns.status().message());
  CHECK(turns->size() == 2);
  CHECK(turns->report.split_rows == 0);
  // The row is cut in two, and the first half has nothing to learn.
  const auto halves = Load({{chats}}, {.sequence_len = 20, .excess_length_strategy = ExcessTokens::kSplit});
  REQUIRE(halves.ok());
  CHECK(halves->size() == 1);
  CHECK(halves->report.split_rows == 1);
  CHECK(halves->report.dropped == std::map<std::string, int64_t>{{"nothing_trained", 1}});
  CHECK(Dropped(*halves).size() == 2);

  const auto cut = Load({{path}}, {.sequence_len = 8, .excess_length_strategy = ExcessTokens::kTruncate});
  REQUIRE(cut.ok());
  CHECK(cut->report.truncated_rows == 1);
  CHECK(cut->report.split_rows == 0);

  const GreedyTokenizer with_bos({}, true);
  const auto doubled = LoadDataset({{folder.Write("b.jsonl", "{\"text\": \"<s>a\"}\n{\"text\": \"a\"}\n")}},
                                   with_bos, nullptr, {});
  REQUIRE(doubled.ok());
  CHECK(doubled->report.audit.mended_bos == 1);
}

TEST_CASE("the first bad row is the error, whatever the number of threads") {
  const TempFolder folder;
  std::string rows;
  for (int i = 1; i <= 200; ++i) rows += i % 60 == 0 ? "{\"messages\": 1}\n" : Chat("a");
  const std::string path = folder.Write("chats.jsonl", rows);
  for (const int threads : {1, 2, 5}) {
    const auto dataset = Load({{path}}, {}, threads);
    REQUIRE_FALSE(dataset.ok());
    CHECK(DetailOf(dataset.status())->line == 60);
  }
}

TEST_CASE("what cannot be read is refused by name") {
  const TempFolder folder;
  const std::string good = folder.Write("good.jsonl", Chat("a"));
  CheckRefused({}, "data.train", 2);
  CheckRefused({{folder.path() + "/absent.jsonl"}}, "No such file");
  CheckRefused({{folder.path() + "/*.txt"}}, "no file");
  CheckRefused({{folder.Write("empty.txt", "")}}, "an empty file");
  CheckRefused({{folder.Write("latin.txt", "a\nb\xE4")}}, "not UTF-8", 4, 2);
  CheckRefused({{folder.Write("book.txt", "x"), RowFormat::kMessages}}, "format messages for a document");
  CheckRefused({{folder.Write("share.jsonl", "\n{\"conversations\": []}\n")}}, "conversations", 4, 2);
  CheckRefused({{good, RowFormat::kAlpaca}}, "instruction", 4, 1);
  CheckRefused({{folder.Write("odd.jsonl", "{\"question\": 1, \"answer\": 2}\n")}},
               "the keys question, answer", 4, 1);
  CheckRefused({{good, RowFormat::kMessages, {}, {.weight = -1.0}}}, "data.train.weight", 2);
  CheckRefused({{good}, {folder.Write("mixed.jsonl", Chat("a") + "{\"text\": \"b\"}\n")}}, "no messages", 4,
               2);
}

TEST_CASE("a dataset of which nothing is left is an error with the reasons") {
  const TempFolder folder;
  const std::string path =
      folder.Write("chats.jsonl", Chat(std::string(50, 'a')) + Chat(std::string(50, 'b')));
  const auto dataset = Load({{path}}, {.sequence_len = 16});
  REQUIRE_FALSE(dataset.ok());
  CHECK(std::string(dataset.status().message()).find("all 2 were dropped; found 2 too_long") !=
        std::string::npos);
  CHECK(ExitCodeOf(Load({{path}}, {.sequence_len = 1}).status()) == 2);
}

}  // namespace
}  // namespace ftune
