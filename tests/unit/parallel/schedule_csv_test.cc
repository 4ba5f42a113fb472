#include <random>

#include "base/error.h"
#include "base/scratch_folder.h"
#include "parallel/schedule/csv.h"
#include "parallel/schedule/insert_transfers.h"
#include "parallel/schedule/place_units.h"
#include "tests/unit/parallel/schedule_cases.h"

namespace ftune {
namespace {

std::string ErrorOf(const std::string& text, const ScheduleExpectation& expected = {}) {
  const auto schedule = ParseScheduleCsv(text, "my.csv", expected);
  return schedule.ok() ? "" : std::string(schedule.status().message());
}

TEST_CASE("actions as text") {
  using enum ActionKind;
  const std::vector<std::pair<Action, std::string>> all = {
      {{kForward, 0, 3}, "F0.3"},         {{kBackward, 12, 0}, "BW12.0"},
      {{kBackwardInput, 1, 2}, "B1.2"},   {{kBackwardWeight, 1, 2}, "W1.2"},
      {{kSendActivation, 0, 1}, "SA0.1"}, {{kReceiveActivation, 1, 1}, "RA1.1"},
      {{kSendGradient, 1, 1}, "SG1.1"},   {{kReceiveGradient, 0, 1}, "RG0.1"},
      {{kGather, 1, -1}, "G1"},           {{kRelease, 30, -1}, "R30"},
      {{kReduce, 2, 7}, "D2.7"}};
  for (const auto& [action, text] : all) {
    CHECK(ToString(action) == text);
    const auto parsed = ParseAction(text);
    REQUIRE_MESSAGE(parsed.ok(), text);
    CHECK(*parsed == action);
  }
  const std::vector<std::pair<std::string, std::string>> torch = {
      {"0F3", "F0.3"},       {"12B0", "BW12.0"},    {"1I2", "B1.2"},       {"1W2", "W1.2"},
      {"0SEND_F1", "SA0.1"}, {"1RECV_F1", "RA1.1"}, {"1SEND_B1", "SG1.1"}, {"0RECV_B1", "RG0.1"},
      {"1UNSHARD", "G1"},    {"30RESHARD", "R30"}};
  for (const auto& [text, ours] : torch) {
    const auto parsed = ParseAction(text);
    REQUIRE_MESSAGE(parsed.ok(), text);
    CHECK(ToString(*parsed) == ours);
  }
  for (const char* wrong : {"",      "F",     "F0",   "F0.",   "F.0",      "F0.0x", "f0.0", "X0.0",
                            "F-1.0", "F0.-1", "G0.0", "0F",    "0X1",      "0F1.2", "F0F1", "F99999999999.0",
                            "1",     "0D1",   "0",    "F0 .1", "0UNSHARD3"}) {
    CHECK_MESSAGE(!ParseAction(wrong).ok(), wrong);
  }
}

TEST_CASE("what is written is read back") {
  const auto scratch = ScratchFolder::Create();
  REQUIRE(scratch.ok());
  ForEachCase(ScheduleKinds(), {1, 2, 3, 8}, {1, 2, 9}, [&](const ScheduleCase& at) {
    const Schedule made = at.Make();
    const Schedule with_transfers = InsertTransfers(made);
    for (const Schedule& schedule : {made, with_transfers, PlaceUnits(with_transfers, {.zero = 3})}) {
      const auto read = ParseScheduleCsv(FormatScheduleCsv(schedule), "my.csv",
                                         {.ranks = at.ranks, .microbatches = at.microbatches});
      REQUIRE_MESSAGE(read.ok(), at.Name(), ": ", read.status().ToString());
      CHECK(read->ranks == schedule.ranks);
      if (at.ranks > 1) CHECK(read->shape == schedule.shape);
    }
  });
  const Schedule schedule = ScheduleCase{ScheduleKind::kZbV, 3, 2, 4}.Make();
  const auto path = scratch->path() / "zb-v.csv";
  REQUIRE(WriteScheduleCsv(path, schedule).ok());
  const auto read = ReadScheduleCsv(path);
  REQUIRE(read.ok());
  CHECK(read->ranks == schedule.ranks);
  const auto missing = ReadScheduleCsv(scratch->path() / "none.csv");
  REQUIRE_FALSE(missing.ok());
  CHECK(std::string(missing.status().message()).find("none.csv") != std::string::npos);
}

TEST_CASE("files of torch.distributed.pipelining, with idle fields and line ends of Windows") {
  const auto read = ParseScheduleCsv("0F0,0F1,,,0B0,,0B1\r\n,1F0,1B0,1F1,1B1\r\n", "torch.csv");
  REQUIRE_MESSAGE(read.ok(), read.status().ToString());
  CHECK(ListOf(*read, 0) == "F0.0 F0.1 BW0.0 BW0.1");
  CHECK(ListOf(*read, 1) == "F1.0 BW1.0 F1.1 BW1.1");
  CHECK(read->shape == ScheduleShape{.ranks = 2, .chunks = 1, .microbatches = 2});
  const auto split = ParseScheduleCsv(" 0F0 , 1F0, 1I0, 0I0,1W0, 0W0\n\n", "torch.csv");
  REQUIRE_MESSAGE(split.ok(), split.status().ToString());
  CHECK(split->shape == ScheduleShape{.ranks = 1, .chunks = 2, .microbatches = 1});
}

TEST_CASE("files that spreadsheets write") {
  for (const char* text :
       {"\xef\xbb\xbf"
        "F0.0,BW0.0\n",
        "F0.0,BW0.0\r\n\r\n", "\"F0.0\",\"BW0.0\"\r\n", "\xef\xbb\xbf \" F0.0 \" , BW0.0 ,\"\",\r\n"}) {
    const auto read = ParseScheduleCsv(text, "my.csv");
    REQUIRE_MESSAGE(read.ok(), text, read.status().ToString());
    CHECK(ListOf(*read, 0) == "F0.0 BW0.0");
  }
}

TEST_CASE("a bad file is refused with line and field") {
  struct Bad {
    std::string text;
    std::string message;
    ScheduleExpectation expected = {};
  };
  const std::vector<Bad> all = {
      {"", "my.csv: error: an empty file, expected a line a rank"},
      {"\n  \n", "an empty file"},
      {"F0.0,BW0.0,F0.1,BW0.1\n,,F1.0,BW1.0,F1.1,BX1.1\n",
       "my.csv:2: error: field 6: not an action of a schedule; found \"BX1.1\""},
      {"F0.0,BW0.0\n\n", "expected 2", {.ranks = 2}},
      {"F0.0,BW0.0\n", "another number of microbatches; found 1, expected 4", {.microbatches = 4}},
      {"F0.0,BW0.0\nF1.0,BW1.0,F2.0,BW2.0\n",
       "each rank must hold as many stages; found 3 stages in 2 lines"},
      {"F0.0,BW0.0\nF1.0,BW1.0,BW1.2\n", "actions are missing"},
      {"F0.0,BW0.0,F2000000000.2000000000\n", "actions are missing"},
      {"F0.0,BW0.0\nF1.0,F1.0,BW1.0\n", "my.csv:2: error: field 2 (F1.0): it is there already"},
      {"F0.0,BW0.0\nF1.0,,F1.0,BW1.0\n", "my.csv:2: error: field 3 (F1.0): it is there already"},
      {"F0.0,BW0.0,F1.0\nF1.0,BW1.0\n", "my.csv:1: error: field 3 (F1.0): stage 1 is on rank 1"},
      {"F0.0,BW0.0\nF1.0\n", "my.csv:2: error: BW1.0, or B and W, is missing"},
      {"F0.0,B0.0,F0.1,B0.1,W0.1\n", "my.csv:1: error: W0.0 is missing"},
      {"BW0.0,F0.0\n", "my.csv:1: error: field 1 (BW0.0): it comes before F0.0"},
      {"F0.0,SA0.0,RG0.0,BW0.0\nRA1.0,F1.0,BW1.0\n", "my.csv:2: error: SG1.0 is missing"},
      {"F0.0,BW0.0,F0.1,BW0.1\nF1.1,BW1.1,F1.0,BW1.0\n", "my.csv:1: error: field 2 (BW0.0): deadlock: "},
      {"F0.0,F3.0,BW3.0,BW0.0\nF1.0,F2.0,BW2.0,BW1.0,F0.0\n",
       "my.csv:2: error: field 5 (F0.0): stage 0 is on rank 0"},
      {",,\n", "each rank must hold as many stages; found 0 stages in 1 line"},
      {"F0.0,BW0.0\n", "found 1 line, expected 2", {.ranks = 2}},
      {"F0.0,BW0.0,F1.1\n", "actions are missing; found 3 actions, of stages up to 1"},
      {"F0.0;BW0.0\n",
       "my.csv:1: error: field 1: its actions are separated by semicolons; found \"F0.0;BW0.0\""},
      {"F0.0\tBW0.0\n", "separated by tabs; found \"F0.0\\tBW0.0\", expected a line a rank, and commas"},
      {"F0.0,BW0.0\rF1.0,BW1.0\r", "field 2: its actions are separated by line ends of CR alone"},
      {"F0.0,\"BW0.0,F0.1\",BW0.1\n", "field 2: the quotes do not enclose one action; found '\"BW0.0'"},
      {"\"F0.0\"\"\",BW0.0\n", "field 1: the quotes do not enclose one action"},
      {"F0.0,\x1b[31mBW0.0\n", "field 2: not an action of a schedule; found \"\\x1b[31mBW0.0\""},
      {std::string("F0.0,BW\0\n", 9), "found \"BW\\x00\""},
      {StrCat("F0.0,", std::string(1000, 'F')), StrCat("found \"", std::string(60, 'F'), "...\"")},
      {"\xff\xfe"
       "F",
       "my.csv: error: this text is UTF-16, expected ASCII or UTF-8"},
      {"F0.0,\xef\xbb\xbf"
       "BW0.0\n",
       "field 2: not an action"},
  };
  for (const Bad& bad : all) {
    const std::string error = ErrorOf(bad.text, bad.expected);
    CHECK_MESSAGE(error.find(bad.message) != std::string::npos, "\"", error, "\" lacks \"", bad.message,
                  "\"");
  }
  CHECK(ExitCodeOf(ParseScheduleCsv("x", "my.csv").status()) == 4);
  CHECK(ErrorOf("F0.0,F3.0,BW3.0,BW0.0\nF1.0,F2.0,BW2.0,BW1.0\n") == "");  // a V
}

TEST_CASE("files with random damage are refused or right") {
  std::mt19937 random(1);
  const std::string alphabet = "0123456789.,\n FBWSARGD_x-";
  int accepted = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const ScheduleCase at{ScheduleKinds()[trial % 8], 1 + trial % 3,
                          TriedChunks(ScheduleKinds()[trial % 8]).back(), 2};
    const Schedule schedule = at.Make();
    std::string text = FormatScheduleCsv(trial % 2 == 0 ? schedule : InsertTransfers(schedule));
    for (int edits = trial % 5; edits >= 0; --edits) {
      const size_t position = random() % text.size();
      const char letter = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          text[position] = letter;
          break;
        case 1:
          text.insert(position, 1, letter);
          break;
        default:
          text.erase(position, 1 + random() % 6);
          if (text.empty()) text = "F";
      }
    }
    const auto read = ParseScheduleCsv(text, "my.csv");
    if (read.ok()) {
      ++accepted;
      CHECK(CheckSchedule(*read).ok());
    } else {
      CHECK(std::string(read.status().message()).rfind("my.csv:", 0) == 0);
    }
  }
  CHECK(accepted > 10);  // a space more, say
}

}  // namespace
}  // namespace ftune
