// Preparing data into stores: the same whatever happens on the way.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/strings.h"
#include "data/prepare/ordered_pipeline.h"
#include "data/prepare/prepare_dataset.h"
#include "data/store/store_folder.h"
#include "fakes.h"
#include "files.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

const GreedyTokenizer kTokenizer;
const ChatMl kTemplate;

// Of about 40 bytes each, every eleventh of them too long.
std::string Texts(int rows, const std::string& word = "text") {
  std::string text;
  for (int i = 0; i < rows; ++i) {
    text += StrCat(R"({"text": ")", word, " ", i, std::string(i % 11 == 10 ? 60 : 9, 'x'), "\"}\n");
  }
  return text;
}

struct Prepared {
  absl::StatusOr<PreparedDataset> result;
  std::string said;
};

// Blocks of about eight rows, shards of about four blocks.
PrepareOptions Options(const fs::path& folder) {
  return {.folder = folder,
          .source = {.tokenizer = "a",
                     .chat_template = "b",
                     .options = {.sequence_len = 40, .excess_length_strategy = ExcessTokens::kDrop}},
          .build = {.threads = 2, .block_bytes = 300, .shard_bytes = 1200}};
}

Prepared Prepare(const std::vector<DatasetEntry>& entries, const PrepareOptions& options) {
  Prepared prepared;
  prepared.result = PrepareDataset(entries, kTokenizer, &kTemplate, options,
                                   {.say = [&](const std::string& line) { prepared.said += line + "\n"; }});
  return prepared;
}

PreparedDataset Done(const std::vector<DatasetEntry>& entries, const PrepareOptions& options) {
  Prepared prepared = Prepare(entries, options);
  INFO(std::string(prepared.result.status().message()));
  REQUIRE(prepared.result.ok());
  return *std::move(prepared.result);
}

// Name and content of each file of a store.
std::map<std::string, std::string> FilesOf(const fs::path& store) {
  std::map<std::string, std::string> files;
  for (const auto& file : fs::directory_iterator(store)) {
    std::ifstream in(file.path(), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    files[file.path().filename().string()] = text.str();
  }
  return files;
}

void CheckEqual(const Dataset& a, const Dataset& b) {
  REQUIRE(a.size() == b.size());
  for (int64_t i = 0; i < a.size(); ++i) {
    CHECK(CopySample(a.sample(i)).ids == CopySample(b.sample(i)).ids);
    CHECK(CopySample(a.sample(i)).trained == CopySample(b.sample(i)).trained);
    CHECK(a.info(i).row == b.info(i).row);
    CHECK(a.info(i).row_hash == b.info(i).row_hash);
    CHECK(a.info(i).entry == b.info(i).entry);
  }
  CHECK(a.report == b.report);
}

TEST_CASE("a store has what memory would have, and is found again") {
  const TempFolder folder;
  const std::vector<DatasetEntry> entries = {{folder.Write("a.jsonl", Texts(200))},
                                             {folder.Write("b.jsonl", Texts(30, "more"))},
                                             {folder.Write("c.txt", "a short document")}};
  const fs::path stores = fs::path(folder.path()) / "deep" / "stores";
  const PreparedDataset first = Done(entries, Options(stores));
  CHECK(first.store.reused_shards == 0);
  CHECK(first.store.shards >= 6);
  CHECK(first.store.path.parent_path() == stores);
  CHECK(first.dataset.report.dropped.at("too_long") == 20);
  CHECK(first.dataset.size() == 231 - 20);
  int64_t bytes = 0;
  for (const auto& [name, content] : FilesOf(first.store.path)) {
    if (name.starts_with("shard-")) bytes += static_cast<int64_t>(content.size());
  }
  CHECK(first.store.bytes == bytes);

  const PreparedDataset second = Done(entries, Options(stores));
  CHECK(second.store.path == first.store.path);
  CHECK(second.store.reused_shards == first.store.shards);
  CheckEqual(first.dataset, second.dataset);
  const PreparedDataset memory = Done(entries, Options({}));
  CHECK(memory.store.path.empty());
  CheckEqual(first.dataset, memory.dataset);
  CHECK(memory.dataset.info(memory.dataset.size() - 1).entry == 2);
  CHECK(memory.dataset.info(memory.dataset.size() - 1).row == 230);

  for (const int threads : {1, 7}) {
    PrepareOptions options = Options(stores / StrCat(threads));
    options.build.threads = threads;
    CHECK(FilesOf(Done(entries, options).store.path) == FilesOf(first.store.path));
  }
}

TEST_CASE("whatever could change a sample makes another store") {
  const TempFolder folder;
  const fs::path stores = fs::path(folder.path()) / "stores";
  const std::string path = folder.Write("a.jsonl", Texts(20));
  const PrepareOptions options = Options(stores);
  const fs::path first = Done({{path}}, options).store.path;
  CHECK(Done({{.path = path, .mix = {.weight = 3}}}, options).store.path == first);
  PrepareOptions threads = options;
  threads.build.threads = 5;
  CHECK(Done({{path}}, threads).store.path == first);

  std::set<fs::path> paths = {first};
  const auto is_new = [&](const std::vector<DatasetEntry>& entries, const PrepareOptions& changed) {
    CHECK(paths.insert(Done(entries, changed).store.path).second);
  };
  const auto change = [&](const std::function<void(PrepareOptions&)>& with) {
    PrepareOptions changed = options;
    with(changed);
    is_new({{path}}, changed);
  };
  change([](PrepareOptions& o) { o.source.tokenizer = "c"; });
  change([](PrepareOptions& o) { o.source.chat_template = "c"; });
  change([](PrepareOptions& o) { o.source.options.sequence_len = 39; });
  change([](PrepareOptions& o) { o.source.options.train_on_inputs = true; });
  change([](PrepareOptions& o) { o.source.options.train_on_turns = TrainTurns::kLast; });
  change([](PrepareOptions& o) { o.source.options.excess_length_strategy = ExcessTokens::kSplit; });
  change([](PrepareOptions& o) { o.build.bad_rows = BadRows::kSkip; });
  change([](PrepareOptions& o) { o.build.shard_bytes = 1300; });
  is_new({{path, RowFormat::kText}}, options);
  is_new({{path}, {path}}, options);
  is_new({{.path = path, .mapping = {.columns = {{"text", "text"}}}}}, options);
  is_new({{.path = path, .mapping = {.roles = {{"a", "user"}}}}}, options);
  // One letter of the content, with the size and the time of the file as they were.
  std::string altered = Texts(20);
  altered[altered.size() / 2] ^= 1;
  const auto time = fs::last_write_time(path);
  folder.Write("a.jsonl", altered);
  fs::last_write_time(path, time);
  is_new({{path}}, options);
}

TEST_CASE("what a tokenizer is made from is known by its content") {
  const TempFolder folder;
  fs::create_directory(folder.path() + "/t");
  folder.Write("t/tokenizer.json", "{}");
  folder.Write("t/model.safetensors", "weights");
  const std::string first = *DescribeTokenizer(folder.path() + "/t");
  folder.Write("t/model.safetensors", "other weights");
  CHECK(*DescribeTokenizer(folder.path() + "/t") == first);
  folder.Write("t/chat_template.jinja", "x");
  const std::string second = *DescribeTokenizer(folder.path() + "/t");
  CHECK(second != first);
  folder.Write("t/tokenizer.json", "[]");
  CHECK(*DescribeTokenizer(folder.path() + "/t") != second);
  CHECK_FALSE(DescribeTokenizer(folder.path() + "/none").ok());
  CHECK(DescribeTemplate("a") == "a");
}

TEST_CASE("a template that asks for the time is another one when the time that it writes is") {
  constexpr std::time_t kNow = 1'700'000'000;  // in no zone a second before midnight
  constexpr std::time_t kDay = 24 * 60 * 60;
  const auto changes = [&](const std::string& text, std::time_t after) {
    CAPTURE(text);
    return DescribeTemplate(text, kNow) != DescribeTemplate(text, kNow + after);
  };
  CHECK_FALSE(changes("{% set x = '%H' %}", 2 * kDay));
  for (const std::string format : {"%d", "%d %b %Y", "%Y-%m-%d", "%-d %B", "%x", "%D", "%F", "%A", "100 %"}) {
    const std::string text = "{%set d = strftime_now('" + format + "') %}{%- set e = 7%3 %}{{ d }}";
    CHECK_FALSE(changes(text, 0));
    CHECK_FALSE(changes(text, 1));
    CHECK(changes(text, 2 * kDay));
  }
  for (const char conversion : std::string("HIklMpPrRsSTXc")) {
    for (const std::string flags : {"", "-", "02", "E"}) {
      CHECK(changes("{{ strftime_now('%d %" + flags + conversion + "') }}", 1));
    }
  }
  CHECK(changes("{% set format = '%H:%M' %}{{ strftime_now(format) }}", 1));
}

TEST_CASE("a store that lost something is mended, and is then as it was") {
  const TempFolder folder;
  const std::vector<DatasetEntry> entries = {{folder.Write("a.jsonl", Texts(200))}};
  const PrepareOptions options = Options(folder.path() + "/stores");
  const PreparedDataset first = Done(entries, options);
  const fs::path store = first.store.path;
  const std::map<std::string, std::string> files = FilesOf(store);
  const PreparedDataset memory = Done(entries, Options({}));  // the first maps what is overwritten below
  const auto mended = [&](int64_t redone, const std::string& said) {
    Prepared again = Prepare(entries, options);
    INFO(again.said);
    REQUIRE(again.result.ok());
    CHECK(again.said.find(said) != std::string::npos);
    CHECK(again.said.find(said) == again.said.rfind(said));  // once
    CHECK(again.said.find("error:") == std::string::npos);
    CHECK(again.result->store.shards - again.result->store.reused_shards == redone);
    CHECK(FilesOf(store) == files);
    CheckEqual(again.result->dataset, memory.dataset);
  };
  const auto write = [&](const std::string& name, const std::string& content) {
    std::ofstream(store / name, std::ios::binary) << content;
  };
  const std::string shard = ShardName(2);
  std::string flipped = files.at(shard);
  flipped[100] ^= 16;
  write(shard, flipped);
  mended(1, "checksum");
  write(shard, files.at(shard).substr(0, 500));
  mended(1, "a torn file");
  write(shard, "hello");
  mended(1, "5 bytes");
  write(shard, files.at(ShardName(3)));
  mended(1, "of another store");
  fs::remove(store / shard);
  mended(1, "mended");
  write("manifest.json", "{");
  mended(0, "mended");
  fs::remove(store / "manifest.json");
  mended(0, "going on from");
  // As a process leaves it that was killed: some shards, and one unfinished.
  fs::remove(store / "manifest.json");
  fs::remove(store / ShardName(1));
  fs::remove(store / ShardName(4));
  write(StrCat(".", ShardName(4), ".tmp-123-0"), "half");
  mended(2, "going on from");
}

TEST_CASE("bad rows are the error, or are skipped, counted and listed") {
  const TempFolder folder;
  const std::string path = folder.Write(
      "a.jsonl", StrCat("{\"text\": 1}\n[]\n", Texts(9), "{broken\n{\"prompt\": \"x\"}\n", Texts(3)));
  PrepareOptions options = Options({});
  const Prepared refused = Prepare({{path}}, options);
  REQUIRE_FALSE(refused.result.ok());
  CHECK(DetailOf(refused.result.status())->line == 1);
  options.build.bad_rows = BadRows::kSkip;
  const PreparedDataset skipped = Done({{path}}, options);
  CHECK(skipped.dataset.size() == 12);
  CHECK(skipped.dataset.report.rows == 16);
  CHECK(skipped.dataset.report.dropped.at("bad_row") == 4);
  std::vector<int64_t> lines;
  CHECK(skipped.dataset.store
            ->VisitDropped([&](const DroppedRow& row) {
              CHECK(row.reason == kBadRow);
              CHECK(row.message.starts_with(StrCat(path, ":", row.place.line, ": error:")));
              lines.push_back(row.place.line);
              return absl::OkStatus();
            })
            .ok());
  CHECK(lines == std::vector<int64_t>{1, 2, 12, 13});
  const Prepared none = Prepare({{folder.Write("b.jsonl", "{\n[]\n")}}, options);
  REQUIRE_FALSE(none.result.ok());
  const std::string message(none.result.status().message());
  INFO(message);
  CHECK(message.find("2 bad_row, the first of which is " + folder.path() + "/b.jsonl:1: error: ") !=
        std::string::npos);
  CHECK(message.find("data.on_bad_row") != std::string::npos);
  CHECK(message.find("sequence_len") == std::string::npos);
}

TEST_CASE("cut rows are counted and listed") {
  const TempFolder folder;
  PrepareOptions options = Options(folder.path() + "/stores");
  options.source.options.excess_length_strategy = ExcessTokens::kTruncate;
  const PreparedDataset cut = Done({{folder.Write("a.jsonl", Texts(30))}}, options);
  CHECK(cut.dataset.report.truncated_rows == 2);
  CHECK(cut.dataset.report.dropped.empty());
  std::vector<int64_t> rows;
  CHECK(cut.dataset.store
            ->VisitDropped([&](const DroppedRow& row) {
              CHECK(row.reason == kTruncated);
              CHECK(row.tokens > 40);
              rows.push_back(row.row);
              return absl::OkStatus();
            })
            .ok());
  CHECK(rows == std::vector<int64_t>{10, 21});
}

TEST_CASE("the hash of a row is that of what it says, wherever and however it stands") {
  const TempFolder folder;
  const Dataset a =
      Done({{folder.Write("a.jsonl", "{\"text\": \"one\"}\n{\"text\":\"two\"}\n")}}, Options({})).dataset;
  const Dataset b =
      Done({{folder.Write("b.jsonl", "{\"text\": \"two\"}\r\n{ \"text\":\"on\\u0065\"}")}}, Options({}))
          .dataset;
  CHECK(a.info(0).row_hash == b.info(1).row_hash);
  CHECK(a.info(0).row_hash != a.info(1).row_hash);
  const Dataset document = Done({{folder.Write("c.txt", "one")}}, Options({})).dataset;
  CHECK(a.info(0).row_hash == document.info(0).row_hash);
}

TEST_CASE("of two at once the second waits, says so, and takes what the first made") {
  const TempFolder folder;
  const std::vector<DatasetEntry> entries = {{folder.Write("a.jsonl", Texts(200))}};
  const PrepareOptions options = Options(folder.path() + "/stores");
  const PreparedDataset made = Done(entries, options);
  const fs::path hidden = made.store.path / "hidden";
  fs::rename(made.store.path / "manifest.json", hidden);
  auto lock = StoreLock::Take(made.store.path, false);
  REQUIRE(lock.ok());
  REQUIRE(*lock);
  CHECK(*StoreLock::Take(made.store.path, false) == nullptr);

  std::mutex mutex;
  std::condition_variable waits;
  bool waiting = false;
  absl::StatusOr<PreparedDataset> second;
  std::thread other([&] {
    second = PrepareDataset(entries, kTokenizer, &kTemplate, options, {.say = [&](const std::string& line) {
                              CHECK(line.find("waiting for it") != std::string::npos);
                              const std::lock_guard guard(mutex);
                              waiting = true;
                              waits.notify_one();
                            }});
  });
  {
    std::unique_lock guard(mutex);
    waits.wait(guard, [&] { return waiting; });
  }
  fs::rename(hidden, made.store.path / "manifest.json");
  lock->reset();
  other.join();
  REQUIRE(second.ok());
  CHECK(second->store.reused_shards == made.store.shards);
  CheckEqual(second->dataset, made.dataset);
}

TEST_CASE("a place that cannot be written to is an error, or memory will do") {
  const TempFolder folder;
  const std::vector<DatasetEntry> entries = {{folder.Write("a.jsonl", Texts(20))}};
  PrepareOptions options = Options(folder.Write("file", "x") + "/stores");
  const Prepared refused = Prepare(entries, options);
  REQUIRE_FALSE(refused.result.ok());
  CHECK(DetailOf(refused.result.status())->key == "data.prepared_path");
  CHECK(ExitCodeOf(refused.result.status()) == 4);
  options.memory_will_do = true;
  const Prepared memory = Prepare(entries, options);
  REQUIRE(memory.result.ok());
  CHECK(memory.result->store.path.empty());
  CHECK(memory.said.find("kept in memory") != std::string::npos);
}

TEST_CASE("a file that is written to meanwhile is an error") {
  const TempFolder folder;
  const std::string path = folder.Write("a.jsonl", Texts(200));
  PrepareOptions options = Options(folder.path() + "/stores");
  bool once = false;
  const auto result =
      PrepareDataset({{path}}, kTokenizer, &kTemplate, options, {.progress = [&](const PrepareProgress&) {
                       if (std::exchange(once, true)) return;
                       std::string other = Texts(200);
                       other[20] = 'y';
                       fs::remove(path);  // the reader goes on with the file that it has open
                       folder.Write("a.jsonl", other);
                     }});
  REQUIRE_FALSE(result.ok());
  CHECK(std::string(result.status().message()).find("changed while it was") != std::string::npos);
  for (const auto& store : fs::directory_iterator(options.folder)) {
    CHECK_FALSE(fs::exists(store.path() / "manifest.json"));
  }
}

TEST_CASE("a pipeline keeps the order, holds few jobs, and stops at the first error") {
  for (const int threads : {1, 4}) {
    std::atomic<int> under_way = 0, most = 0;
    std::vector<int> seen;
    OrderedPipeline<int, int> pipeline(
        threads,
        [&](const int& job) -> absl::StatusOr<int> {
          if (job == 70) return absl::InternalError("70");
          if (job % 5 == 0) std::this_thread::yield();
          return job * 2;
        },
        [&](const int& job, int result) {
          CHECK(result == job * 2);
          seen.push_back(job);
          --under_way;
          return absl::OkStatus();
        });
    absl::Status status;
    for (int job = 0; job < 200 && status.ok(); ++job) {
      most = std::max<int>(most, ++under_way);
      status = pipeline.Push(job);
    }
    CHECK(status.message() == "70");
    CHECK(pipeline.Finish().message() == "70");
    CHECK(seen.size() == 70);
    CHECK(std::is_sorted(seen.begin(), seen.end()));
    CHECK(most <= 2 * threads + 2);
  }
  OrderedPipeline<int, int> throws(
      2, [](const int&) -> absl::StatusOr<int> { throw std::bad_alloc(); },
      [](const int&, int) { return absl::OkStatus(); });
  REQUIRE(throws.Push(1).ok());
  CHECK_THROWS_AS((void)throws.Finish(), std::bad_alloc);
}

}  // namespace
}  // namespace ftune
