#include "data/source/dataset.h"

#include <doctest/doctest.h>

#include <set>

#include "base/error.h"
#include "base/strings.h"
#include "data/store/memory_store.h"
#include "fakes.h"
#include "files.h"

namespace ftune {
namespace {

const GreedyTokenizer kTokenizer;
const ChatMl kTemplate;

absl::StatusOr<Dataset> Load(const std::vector<DatasetEntry>& entries, const SampleOptions& options = {},
                             int threads = 0) {
  return LoadDataset(entries, kTokenizer, &kTemplate, options, threads);
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
  const std::vector<DatasetEntry> entries = {{folder.Write("chats.jsonl", chats)},
                                             {folder.Write("texts.jsonl", texts), RowFormat::kText, 2.0},
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
  REQUIRE(split->report.dropped.size() == 2);
  CHECK(DroppedRowJson(split->report.dropped[0]) ==
        StrCat(R"({"file":")", path, R"(","line":3,"row":1,"reason":"nothing_trained","tokens":1})"));
  CHECK(DroppedRowJson(split->report.dropped[1]) ==
        StrCat(R"({"file":")", chats, R"(","line":1,"row":3,"reason":"too_long","tokens":23})"));

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
  CheckRefused({{folder.path()}}, "a folder");
  CheckRefused({{folder.path() + "/absent.jsonl"}}, "No such file");
  CheckRefused({{folder.path() + "/absent.txt"}}, "No such file");
  CheckRefused({{folder.path() + "/*.jsonl"}}, "patterns of file names");
  for (const char* type : {"csv", "TSV", "parquet", "arrow", "gz", "zst"}) {
    CheckRefused({{folder.Write(StrCat("rows.", type), "x")}}, "files are not supported");
  }
  CheckRefused({{folder.Write("empty.txt", "")}}, "an empty file");
  CheckRefused({{folder.Write("latin.txt", "a\nb\xE4")}}, "not UTF-8", 4, 2);
  CheckRefused({{folder.Write("utf16.txt", "\xFF\xFEx")}}, "UTF-16");
  CheckRefused({{folder.Write("book.txt", "x"), RowFormat::kMessages}}, "format messages for a .txt file");
  CheckRefused({{folder.Write("share.jsonl", "\n{\"conversations\": []}\n")}}, "sharegpt is not supported", 4,
               2);
  CheckRefused({{good, RowFormat::kAlpaca}}, "alpaca is not supported", 4, 1);
  CheckRefused({{folder.Write("odd.jsonl", "{\"question\": 1, \"answer\": 2}\n")}},
               "the keys question, answer", 4, 1);
  CheckRefused({{good, RowFormat::kMessages, -1.0}}, "data.train.weight", 2);
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

Dataset Numbered(int64_t rows, const std::set<int64_t>& dropped = {}) {
  Dataset dataset;
  auto store = std::make_shared<MemoryTokenStore>();
  dataset.mix = {{.weight = 3.0}};
  dataset.report.rows = rows;
  for (int64_t row = 0; row < rows; ++row) {
    if (dropped.contains(row)) continue;
    for (int piece = 0; piece < 1 + row % 2; ++piece) {
      dataset.samples.push_back(store->size());
      store->Add({{static_cast<int32_t>(row), piece}, {1, 1}}, {.row = row});
    }
  }
  dataset.store = store;
  return dataset;
}

std::set<int64_t> RowsOf(const Dataset& dataset) {
  std::set<int64_t> rows;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    CHECK(dataset.sample(i)[0].id() == dataset.info(i).row);
    rows.insert(dataset.info(i).row);
  }
  return rows;
}

TEST_CASE("a split takes whole rows, by the seed alone") {
  const auto split = SplitDataset(Numbered(100), 0.2, 7);
  REQUIRE(split.ok());
  const std::set<int64_t> train = RowsOf(split->train), evaluation = RowsOf(split->evaluation);
  CHECK(evaluation.size() == 20);
  CHECK(train.size() == 80);
  for (const int64_t row : evaluation) CHECK_FALSE(train.contains(row));
  CHECK(split->train.samples.size() + split->evaluation.samples.size() == 150);
  CHECK(split->train.mix.at(0).weight == 3.0);
  CHECK(split->train.report.rows == 100);

  CHECK(RowsOf(SplitDataset(Numbered(100), 20, 7)->evaluation) == evaluation);
  CHECK(RowsOf(SplitDataset(Numbered(100), 20, 8)->evaluation) != evaluation);
  CHECK(SplitDataset(Numbered(100), 0, 7)->evaluation.samples.empty());
  CHECK(RowsOf(SplitDataset(Numbered(10), 0.001, 7)->evaluation).size() == 1);

  // Rows that a length policy drops do not move the others to the other side.
  const std::set<int64_t> fewer = RowsOf(SplitDataset(Numbered(100, {3, 50, 77}), 20, 7)->evaluation);
  CHECK(fewer.size() == 20);
  int64_t same = 0;
  for (const int64_t row : fewer) same += evaluation.contains(row);
  CHECK(same >= 17);
}

TEST_CASE("split sizes that cannot be") {
  for (const double size : {-0.1, 1.5, 100.0, 1000.0, 0.999, std::nan("")}) {
    const auto split = SplitDataset(Numbered(100), size, 7);
    REQUIRE_FALSE(split.ok());
    CHECK(ExitCodeOf(split.status()) == 2);
    CHECK(DetailOf(split.status())->key == "data.val_set_size");
  }
  CHECK(SplitDataset(Numbered(100), 99, 7).ok());
  CHECK_FALSE(SplitDataset(Numbered(1), 0.5, 7).ok());
}

}  // namespace
}  // namespace ftune
