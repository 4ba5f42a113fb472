// Shard files and stores of them: what is read is what was written, or an error.
#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/strings.h"
#include "data/store/mapped_store.h"
#include "data/store/memory_store.h"
#include "data/store/shard_writer.h"
#include "data/store/store_folder.h"
#include "files.h"

namespace ftune {
namespace {

const Hash128 kKey = Xxh3Of128("key");

// Rows 0 to 2 of which the first has two samples, the second none.
TokenBlock Block(int32_t first_id) {
  TokenBlock block;
  block.Add({{first_id, first_id + 1, first_id + 2}, {1, 0, 1}}, 0, 70);
  block.Add({{first_id + 2, 5}, {1, 1}}, 0, 70);
  block.Add({{9}, {1}}, 2, 72);
  block.dropped.push_back({{"a \"b\".jsonl", 12}, 1, kBadRow, 0, "broken\nat 3"});
  block.report.rows = 3;
  block.report.split_rows = 1;
  block.report.dropped[kBadRow] = 1;
  block.report.audit.samples = 2;
  block.report.audit.endings[5] = {.turns = 1, .first = "x:1"};
  return block;
}

void WriteShard(const std::filesystem::path& folder, uint32_t index, int32_t entry = 3) {
  auto writer = ShardWriter::Create(folder, {.key = kKey, .index = index}, entry);
  REQUIRE(writer.ok());
  REQUIRE(writer->Add(Block(100)).ok());
  REQUIRE(writer->Add(Block(0x7ffffff0)).ok());
  REQUIRE(writer->Commit().ok());
}

std::string Contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST_CASE("a store gives back what was added, as one in memory does") {
  const TempFolder folder;
  WriteShard(folder.path(), 0);
  WriteShard(folder.path(), 1, 4);
  std::vector<MappedShard> shards;
  for (uint32_t i : {0u, 1u}) {
    auto shard = MappedShard::Open(folder.path(), {.key = kKey, .index = i});
    INFO(std::string(shard.status().message()));
    REQUIRE(shard.ok());
    shards.push_back(*std::move(shard));
  }
  const MappedTokenStore mapped(std::move(shards));
  MemoryTokenStore memory;
  DataReport report;
  for (const int32_t entry : {3, 4}) {
    for (const int32_t id : {100, 0x7ffffff0}) {
      memory.Append(Block(id), entry, report.rows);
      report.Merge(Block(id).report);
    }
  }
  CHECK(mapped.report() == report);
  CHECK(report.max_id == 0x7ffffff2);
  REQUIRE(mapped.size() == 12);
  REQUIRE(memory.size() == 12);
  for (int64_t i = 0; i < 12; ++i) {
    const SampleInfo a = mapped.info(i), b = memory.info(i);
    CHECK(a.length == b.length);
    CHECK(a.trained_tokens == b.trained_tokens);
    CHECK(a.entry == (i < 6 ? 3 : 4));
    CHECK(b.entry == a.entry);
    CHECK(a.row == i / 3 * 3 + (i % 3 == 2 ? 2 : 0));
    CHECK(b.row == a.row);
    CHECK(a.row_hash == (i % 3 == 2 ? 72 : 70));
    CHECK(b.row_hash == a.row_hash);
    CHECK(CopySample(mapped.tokens(i)).ids == CopySample(memory.tokens(i)).ids);
    CHECK(CopySample(mapped.tokens(i)).trained == CopySample(memory.tokens(i)).trained);
  }
  CHECK(mapped.tokens(3)[2].id() == 0x7ffffff2);
  CHECK(mapped.info(3).trained_tokens == 1);
  const auto dropped = [](const TokenStore& store) {
    std::string lines;
    CHECK(store
              .VisitDropped([&](const DroppedRow& row) {
                StrAppend(lines, row.ToJson().dump(), "\n");
                return absl::OkStatus();
              })
              .ok());
    return lines;
  };
  CHECK(dropped(mapped) == dropped(memory));
  CHECK(dropped(mapped).find(R"("row":10,"reason":"bad_row","tokens":0,"message":"broken\nat 3")") !=
        std::string::npos);
}

TEST_CASE("any byte that is altered, and any end that is missing, is found") {
  const TempFolder folder;
  WriteShard(folder.path(), 7);
  const std::filesystem::path path = std::filesystem::path(folder.path()) / ShardName(7);
  const std::string good = Contents(path);
  const auto opens = [&](const std::string& bytes) {
    folder.Write(ShardName(7), bytes);
    return MappedShard::Open(folder.path(), {.key = kKey, .index = 7}).ok();
  };
  CHECK(opens(good));
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    INFO("byte ", at);
    CHECK_FALSE(opens(bad));
    CHECK_FALSE(opens(good.substr(0, at)));
  }
  CHECK_FALSE(opens(good + '\0'));
  CHECK_FALSE(opens(good + good));
  CHECK(opens(good));
  CHECK_FALSE(MappedShard::Open(folder.path(), {.key = Xxh3Of128("other"), .index = 7}).ok());
  folder.Write(ShardName(8), good);
  CHECK_FALSE(MappedShard::Open(folder.path(), {.key = kKey, .index = 8}).ok());
  CHECK_FALSE(MappedShard::Open(folder.path(), {.key = kKey, .index = 9}).ok());
}

TEST_CASE("a sample that lies outside of its shard is refused, checksum or not") {
  const TempFolder folder;
  WriteShard(folder.path(), 0);
  const std::filesystem::path path = std::filesystem::path(folder.path()) / ShardName(0);
  std::string bytes = Contents(path);
  const size_t first_record = sizeof(ShardHeader) + PadTo8(12 * sizeof(StoredToken));
  bytes[first_record + offsetof(SampleRecord, length)] = 13;  // of 12 tokens
  const uint64_t checksum = Xxh3Of(std::string_view(bytes).substr(0, bytes.size() - 16));
  bytes.replace(bytes.size() - 16, 8, reinterpret_cast<const char*>(&checksum), 8);
  folder.Write(ShardName(0), bytes);
  const auto shard = MappedShard::Open(folder.path(), {.key = kKey, .index = 0});
  REQUIRE_FALSE(shard.ok());
  CHECK(std::string(shard.status().message()).find("outside of the shard") != std::string::npos);
}

TEST_CASE("a manifest counts only for the shards that it was written for") {
  const TempFolder folder;
  const StoreFolder store(folder.path(), kKey);
  CHECK_FALSE(store.HasManifest());
  WriteShard(folder.path(), 0);
  WriteShard(folder.path(), 1);
  folder.Write(".shard-00000002.tokens.tmp-1-0", "x");
  auto found = store.FindShards(2);
  REQUIRE(found.ok());
  CHECK(found->good.size() == 2);
  std::vector<MappedShard> shards;
  for (auto& [index, shard] : found->good) shards.push_back(std::move(shard));
  REQUIRE(store.WriteManifest(MappedTokenStore(std::move(shards))).ok());
  REQUIRE(store.Open(2).ok());
  CHECK((*store.Open(1))->size() == 12);
  REQUIRE(store.RemoveUnfinished().ok());
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/.shard-00000002.tokens.tmp-1-0"));

  const std::string manifest = Contents(folder.path() + "/manifest.json");
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"shards\": 2", "\"shards\": 1"},
                                                        {"\"shards\": 2", "\"shards\": 4000000000"},
                                                        {"\"shards\": 2", "\"shards\": -1"},
                                                        {"\"samples\": 12", "\"samples\": 13"},
                                                        {"\"version\": 3", "\"version\": 2"},
                                                        {HexOf(kKey), HexOf(Xxh3Of128("other"))},
                                                        {"}", ""}}) {
    std::string bad = manifest;
    REQUIRE(bad.find(from) != std::string::npos);
    folder.Write("manifest.json", bad.replace(bad.find(from), from.size(), to));
    INFO(bad);
    CHECK_FALSE(store.Open(2).ok());
  }
  folder.Write("manifest.json", manifest);
  CHECK(store.Open(2).ok());
  std::filesystem::remove(folder.path() + "/" + ShardName(1));
  CHECK_FALSE(store.Open(2).ok());
}

}  // namespace
}  // namespace ftune
