#include "data/loader/streamed_rows.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/strings.h"
#include "data/loader/mixed_rows.h"
#include "fakes.h"
#include "files.h"

namespace ftune {
namespace {

const GreedyTokenizer kTokenizer;

std::string Texts(const std::string& name, int count) {
  std::string rows;
  for (int i = 0; i < count; ++i) StrAppend(rows, R"({"text": ")", name, i, "\"}\n");
  return rows;
}

// Rows of text, each one sample: "a0", "a1", …
class Streams {
 public:
  std::unique_ptr<StreamedRows> Open(const std::string& path, RowFormat format = RowFormat::kAuto) {
    entries_.push_back({path, format});
    auto rows = StreamedRows::Open(entries_.back(), blocks_, BadRows::kError,
                                   {.built = [this](const TokenBlock& block) {
                                     built += block.report.rows;
                                     return absl::OkStatus();
                                   }});
    INFO(std::string(rows.status().message()));
    REQUIRE(rows.ok());
    return *std::move(rows);
  }

  int64_t built = 0;  // rows, into samples

 private:
  SampleBuilder builder_{kTokenizer, nullptr, {.sequence_len = 16}};
  BlockBuilder blocks_{builder_, BadRows::kError};
  std::deque<DatasetEntry> entries_;  // a deque's do not move
};

// The texts of the rows that are left, without the end of text.
std::vector<std::string> Rest(RowStream& rows, size_t most = 1000000) {
  std::vector<std::string> texts;
  while (texts.size() < most) {
    auto row = rows.Next();
    INFO(std::string(row.status().message()));
    REQUIRE(row.ok());
    if (!row->has_value()) break;
    std::string text;
    for (const auto& sample : **row) {
      for (size_t i = 0; i + 1 < sample.size(); ++i) text += static_cast<char>(sample[i].id());
    }
    texts.push_back(text);
  }
  return texts;
}

TEST_CASE("the rows of a file, from any of them on; those passed over are not tokenised") {
  const TempFolder folder;
  const std::string path = folder.Write("rows.jsonl", Texts("r", 100));
  Streams streams;
  const std::vector<std::string> all = Rest(*streams.Open(path));
  REQUIRE(all.size() == 100);
  CHECK(all[42] == "r42");
  for (const int64_t skipped : {0, 1, 42, 99, 100}) {
    streams.built = 0;
    const auto rows = streams.Open(path);
    const auto there = rows->Skip(skipped);
    REQUIRE(there.ok());
    CHECK(*there == skipped);
    CHECK(Rest(*rows) == std::vector<std::string>(all.begin() + skipped, all.end()));
    CHECK(streams.built == 100 - skipped);
  }
  CHECK(*streams.Open(path)->Skip(1000) == 100);
  const auto rows = streams.Open(path);
  Rest(*rows, 3);
  CHECK(*rows->Skip(5) == 5);
  CHECK(Rest(*rows, 1) == std::vector<std::string>{"r8"});
}

TEST_CASE("several streams: by turns of their weights, or one after the other; skipping is reading") {
  const TempFolder folder;
  const std::string a = folder.Write("a.jsonl", Texts("a", 8)), b = folder.Write("b.jsonl", Texts("b", 2));
  Streams streams;
  const auto interleaved = [&] {
    std::vector<WeightedRows> list;
    list.push_back({streams.Open(a), 2.0});
    list.push_back({streams.Open(b), 1.0});
    list.push_back({streams.Open(a), 0.0});
    return std::make_unique<InterleavedRows>(std::move(list));
  };
  const auto concatenated = [&] {
    std::vector<std::unique_ptr<RowStream>> list;
    list.push_back(streams.Open(b));
    list.push_back(streams.Open(a));
    return std::make_unique<ConcatenatedRows>(std::move(list));
  };
  const std::vector<std::string> turns = Rest(*interleaved()), queue = Rest(*concatenated());
  CHECK(turns == std::vector<std::string>{"a0", "b0", "a1", "a2", "b1", "a3", "a4", "a5", "a6", "a7"});
  CHECK(queue == std::vector<std::string>{"b0", "b1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7"});
  for (int64_t skipped = 0; skipped <= 10; ++skipped) {
    const auto by_turns = interleaved();
    CHECK(*by_turns->Skip(skipped) == skipped);
    CHECK(Rest(*by_turns) == std::vector<std::string>(turns.begin() + skipped, turns.end()));
    const auto in_order = concatenated();
    CHECK(*in_order->Skip(skipped) == skipped);
    CHECK(Rest(*in_order) == std::vector<std::string>(queue.begin() + skipped, queue.end()));
  }
  CHECK(*interleaved()->Skip(11) == 10);
  CHECK(*concatenated()->Skip(11) == 10);
}

TEST_CASE("a pipe is read as it comes, and its reader can be interrupted") {
  const TempFolder folder;
  const std::string path = folder.path() + "/pipe";
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK(IsPipe(path));
  CHECK(IsPipe("-"));
  CHECK_FALSE(IsPipe(folder.path()));
  CHECK_FALSE(IsPipe("missing"));
  Streams streams;
  {
    const auto rows = streams.Open(path);  // no writer yet
    std::thread writer([&] {
      const std::string text = Texts("p", 20000);  // more than a pipe holds, and than a block
      const int fd = open(path.c_str(), O_WRONLY);
      for (size_t at = 0; at < text.size();) {
        const ssize_t written = write(fd, text.data() + at, std::min<size_t>(text.size() - at, 1000));
        if (written <= 0) break;
        at += static_cast<size_t>(written);
      }
      close(fd);
    });
    const std::vector<std::string> all = Rest(*rows);
    writer.join();
    REQUIRE(all.size() == 20000);
    CHECK(all.back() == "p19999");
  }
  const auto rows = streams.Open(path);
  std::thread interrupter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    rows->Interrupt();
  });
  CHECK(Rest(*rows).empty());
  interrupter.join();
  CHECK(Rest(*rows).empty());
}

TEST_CASE("rows that cannot be read") {
  const TempFolder folder;
  Streams streams;
  const auto status =
      streams.Open(folder.Write("broken.jsonl", Texts("b", 2) + "{broken\n"))->Next().status();
  REQUIRE_FALSE(status.ok());
  CHECK(std::string(status.message()).find("broken.jsonl:3: error:") != std::string::npos);
  const SampleBuilder builder(kTokenizer, nullptr, {});
  const BlockBuilder blocks(builder, BadRows::kError);
  for (const std::string& path : {folder.Write("empty.jsonl", ""), std::string("missing.jsonl")}) {
    const DatasetEntry entry = {path};
    auto rows = StreamedRows::Open(entry, blocks, BadRows::kError, {});
    CHECK(ExitCodeOf(rows.ok() ? (*rows)->Next().status() : rows.status()) == 4);
  }
}

}  // namespace
}  // namespace ftune
