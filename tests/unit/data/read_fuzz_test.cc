// Random files: what was written comes back, whatever the blocks and pieces; bytes at random are refused or
// read, but never crash a reader.
#include <doctest/doctest.h>
#include <zlib.h>
#include <zstd.h>

#include <random>

#include "block_checks.h"
#include "data/file/csv_scanner.h"
#include "data/file/json_list_scanner.h"
#include "data/file/jsonl_scanner.h"
#include "data/file/unpacked_bytes.h"
#include "files.h"

namespace ftune {
namespace {

constexpr uint64_t kSeed = 20261129;
constexpr int kFiles = 300;
constexpr int kBroken = 3000;

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  size_t Below(size_t bound) { return engine_() % bound; }
  bool OneIn(size_t count) { return Below(count) == 0; }
  template <class List>
  const auto& Of(const List& list) {
    return list[Below(std::size(list))];
  }

 private:
  std::mt19937_64 engine_;
};

// The bytes of a string, a few at a time, as a slow file gives them.
class StringBytes : public ByteSource {
 public:
  StringBytes(std::string text, uint64_t seed, size_t most)
      : text_(std::move(text)), dice_(seed), most_(most) {}
  absl::StatusOr<size_t> Read(char* to, size_t size) override {
    const size_t count = std::min({size, text_.size() - at_, 1 + dice_.Below(most_)});
    text_.copy(to, count, at_);
    at_ += count;
    return count;
  }

 private:
  std::string text_;
  Dice dice_;
  size_t most_;
  size_t at_ = 0;
};

enum class Scanner { kLines, kList, kObject, kCsv };

ReadRows Scan(Scanner kind, const std::string& text, size_t block_bytes, size_t read_bytes, uint64_t seed) {
  std::unique_ptr<RowScanner> scanner;
  if (kind == Scanner::kLines) scanner = std::make_unique<JsonlScanner>();
  if (kind == Scanner::kList) scanner = std::make_unique<JsonListScanner>("f", false);
  if (kind == Scanner::kObject) scanner = std::make_unique<JsonListScanner>("f", true);
  if (kind == Scanner::kCsv) scanner = std::make_unique<CsvScanner>("f", ',');
  BlockOptions options;
  options.block_bytes = block_bytes;
  options.read_bytes = read_bytes;
  std::unique_ptr<BlockReader> reader = std::make_unique<ScannedReader>(
      "f", std::make_unique<StringBytes>(text, seed, read_bytes), std::move(scanner), options);
  return ReadBlocks(std::move(reader));
}

constexpr const char* kPieces[] = {"a", "\"", "\\", "\n",         ",", "{",  "}",  "[",
                                   "]", ":",  "é",  "\U0001F600", " ", "\r", "\t", "/"};

std::string RandomText(Dice& dice) {
  std::string text;
  for (size_t left = dice.Below(12); left > 0; --left) text += dice.Of(kPieces);
  return text;
}

OrderedJson RandomValue(Dice& dice, int depth) {
  switch (dice.Below(depth > 0 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return dice.OneIn(2);
    case 2:
      return static_cast<int64_t>(dice.Below(2000)) - 1000;
    case 3:
      return static_cast<double>(dice.Below(1000)) / 8;
    case 4:
      return RandomText(dice);
    case 5: {
      OrderedJson list = OrderedJson::array();
      for (size_t left = dice.Below(4); left > 0; --left) list.push_back(RandomValue(dice, depth - 1));
      return list;
    }
    default: {
      OrderedJson object = OrderedJson::object();
      for (size_t left = dice.Below(4); left > 0; --left)
        object[RandomText(dice)] = RandomValue(dice, depth - 1);
      return object;
    }
  }
}

OrderedJson RandomRow(Dice& dice) {
  OrderedJson row = OrderedJson::object();
  for (size_t left = dice.Below(5); left > 0; --left) row[RandomText(dice)] = RandomValue(dice, 3);
  return row;
}

std::string Space(Dice& dice, bool newlines = true) {
  std::string space;
  while (dice.OneIn(3))
    space += dice.OneIn(2) ? " " : newlines ? dice.Of((const char*[]){"\n", "\r\n", "\t"}) : "\t";
  return space;
}

struct Written {
  std::vector<std::string> rows;
  std::vector<std::string> texts;  // of the rows
};
Written WriteRows(Dice& dice, bool lines) {
  Written written;
  for (size_t left = 1 + dice.Below(20); left > 0; --left) {
    const OrderedJson row = RandomRow(dice);
    written.rows.push_back(row.dump());
    written.texts.push_back(row.dump(lines || dice.OneIn(2) ? -1 : static_cast<int>(dice.Below(3))));
  }
  return written;
}

// Every block size from one byte up for small files, and some beyond.
void CheckRows(Scanner kind, const std::string& text, const std::vector<std::string>& rows, Dice& dice) {
  const ReadRows whole = Scan(kind, text, 1 << 20, 1 << 20, 0);
  INFO(text);
  INFO(std::string(whole.error.message()));
  REQUIRE(whole.error.ok());
  REQUIRE(whole.rows == rows);
  for (size_t block = 1; block <= text.size() + 1; block += 1 + block / 4) {
    const size_t read = 1 + dice.Below(dice.OneIn(2) ? 8 : 200);
    const ReadRows pieces = Scan(kind, text, block, read, dice.Below(1 << 20));
    CHECK(pieces.error.ok());
    CHECK(pieces.rows == whole.rows);
    CHECK(pieces.lines == whole.lines);
    CHECK(pieces.blocks == Scan(kind, text, block, 1 << 20, 0).blocks);
  }
}

TEST_CASE("fuzz: JSON Lines come back") {
  Dice dice(kSeed);
  for (int file = 0; file < kFiles; ++file) {
    const Written written = WriteRows(dice, true);
    std::string text;
    for (const std::string& row : written.texts) {
      text += (dice.OneIn(4) ? "\n \r\n" : "") + Space(dice, false) + row + Space(dice, false) +
              (dice.OneIn(3) ? "\r\n" : "\n");
    }
    if (dice.OneIn(3)) text.pop_back();
    CheckRows(Scanner::kLines, text, written.rows, dice);
  }
}

TEST_CASE("fuzz: JSON lists come back, alone and within an object") {
  Dice dice(kSeed + 1);
  for (int file = 0; file < kFiles; ++file) {
    const Written written = WriteRows(dice, false);
    std::string list = Space(dice) + "[";
    for (size_t i = 0; i < written.texts.size(); ++i) {
      list += (i > 0 ? "," : "") + Space(dice) + written.texts[i] + Space(dice);
    }
    list += "]" + Space(dice);
    CheckRows(Scanner::kList, list, written.rows, dice);

    // Other members before and behind it, none of them a list of objects.
    const auto member = [&] {
      OrderedJson value = RandomValue(dice, 3);
      if (value.is_array()) value.insert(value.begin(), 1);
      return Space(dice) + OrderedJson(RandomText(dice)).dump() + Space(dice) + ":" + Space(dice) +
             value.dump() + Space(dice);
    };
    std::string object = Space(dice) + "{";
    for (size_t left = dice.Below(3); left > 0; --left) object += member() + ",";
    object += Space(dice) + "\"rows\"" + Space(dice) + ":" + list;
    for (size_t left = dice.Below(3); left > 0; --left) object += "," + member();
    CheckRows(Scanner::kObject, object + "}" + Space(dice), written.rows, dice);
  }
}

TEST_CASE("fuzz: CSV comes back") {
  Dice dice(kSeed + 2);
  for (int file = 0; file < kFiles; ++file) {
    const size_t columns = 1 + dice.Below(4);
    const auto field = [&](const std::string& value) {
      const bool needs_quotes =
          value.find_first_of(",\"\r\n") != std::string::npos || (columns == 1 && value.empty());
      if (!needs_quotes && !dice.OneIn(4)) return value;
      std::string quoted = "\"";
      for (const char c : value) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
      return quoted + "\"";
    };
    const auto line_end = [&]() -> std::string {
      return dice.Of((const char*[]){"\n", "\r\n", "\r", "\n\n"});
    };
    std::string text;
    std::vector<std::string> names, rows;
    for (size_t i = 0; i < columns; ++i) {
      names.push_back(RandomText(dice) + std::to_string(i));
      text += (i > 0 ? "," : "") + field(names.back());
    }
    text += line_end();
    for (size_t left = 1 + dice.Below(20); left > 0; --left) {
      OrderedJson row = OrderedJson::object();
      for (size_t i = 0; i < columns; ++i) {
        const std::string value = RandomText(dice);
        row[names[i]] = value;
        text += (i > 0 ? "," : "") + field(value);
      }
      rows.push_back(row.dump());
      if (left > 1 || dice.OneIn(2)) text += line_end();
    }
    CheckRows(Scanner::kCsv, text, rows, dice);
  }
}

TEST_CASE("fuzz: broken files are read in the same way in any pieces") {
  Dice dice(kSeed + 3);
  constexpr const char* kSeeds[] = {
      "[{\"a\":[1,{\"b\":\"\\\"x\"}]},{\"c\":2}]", "{\"x\":{},\"rows\":[{\"a\":1},{\"b\":[]}],\"y\":[1]}",
      "a,b\n\"1\n\",2\r\n3,\"\"\"4\"\n", "{\"a\":1}\n{\"b\":\"\xC3\xA9\"}\n\n{}\n"};
  for (int file = 0; file < kBroken; ++file) {
    std::string text = dice.Of(kSeeds);
    for (size_t left = 1 + dice.Below(4); left > 0; --left) {
      const size_t at = dice.Below(text.size() + 1);
      switch (dice.Below(4)) {
        case 0:
          text.resize(at);
          break;
        case 1:
          text.insert(at, dice.Of(kPieces));
          break;
        case 2:
          text.erase(at, 1 + dice.Below(3));
          break;
        default:
          if (at < text.size()) text[at] = static_cast<char>(dice.Below(256));
      }
    }
    for (const Scanner kind : {Scanner::kLines, Scanner::kList, Scanner::kObject, Scanner::kCsv}) {
      const ReadRows whole = Scan(kind, text, 16, 1 << 16, 0);
      const ReadRows pieces = Scan(kind, text, 16, 1, 0);
      INFO(text);
      CHECK(whole.rows == pieces.rows);
      CHECK(whole.blocks == pieces.blocks);
      CHECK(whole.error == pieces.error);
    }
  }
}

TEST_CASE("fuzz: bytes at random never crash") {
  Dice dice(kSeed + 4);
  const TempFolder folder;
  const std::string begins[] = {
      "",           "{", "[", "\x1F\x8B\x08", "\x28\xB5\x2F\xFD", "PAR1", "\xEF\xBB\xBF", "{\"data\":[{",
      "\"a\",b\n\""};
  constexpr const char* kNames[] = {"a.jsonl", "a.json", "a.csv", "a.tsv", "a.txt", "a.jsonl.gz", "a"};
  for (int file = 0; file < kBroken; ++file) {
    std::string text = dice.Of(begins);
    for (size_t left = dice.Below(200); left > 0; --left) {
      text += dice.OneIn(2) ? dice.Of(kPieces) : std::string(1, static_cast<char>(dice.Below(256)));
    }
    OpenOptions options;
    options.block_bytes = 1 + dice.Below(50);
    options.read_bytes = 1 + dice.Below(50);
    const ReadRows read = ReadPath(folder.Write(dice.Of(kNames), text), options);
    if (!read.error.ok()) CHECK(ExitCodeOf(read.error) == 4);
  }
}

}  // namespace
}  // namespace ftune
