#include "cmd/recipe/units.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cmd/recipe/nearest.h"

namespace ftune {
namespace {

TEST_CASE("whole numbers") {
  CHECK(ParseInteger("0") == 0);
  CHECK(ParseInteger("-12") == -12);
  CHECK(ParseInteger("9223372036854775807") == std::numeric_limits<int64_t>::max());
  for (const char* text : {"", "-", "1_000", "007", "-01", "0x10", "1e3", "16.0", "+1", " 1", "1 ",
                           "9223372036854775808", "on", "١"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseInteger(text).has_value());
  }
}

TEST_CASE("numbers") {
  CHECK(ParseNumber("2e-5") == 2e-5);
  CHECK(ParseNumber("2E-5") == 2e-5);
  CHECK(ParseNumber("+1.5") == 1.5);
  CHECK(ParseNumber(".5") == 0.5);
  CHECK(ParseNumber("5.") == 5.0);
  CHECK(ParseNumber("0") == 0.0);
  for (const char* text : {"", ".", "-", "1_000.0", "nan", ".nan", "inf", "-inf", ".inf", "1e999", "0x1p3",
                           "1,5", "2e-5 ", "++1", "+-1", "1e"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseNumber(text).has_value());
  }
}

TEST_CASE("numbers are written so that they read back equal, also by YAML 1.1") {
  CHECK(FormatNumber(2e-5) == "2.0e-05");
  CHECK(FormatNumber(0.03) == "0.03");
  CHECK(FormatNumber(16) == "16");
  for (double value : {0.1, 1.0 / 3, 1e-8, 1.7976931348623157e308, 5e-324, 1e22, -2.5}) {
    CHECK(ParseNumber(FormatNumber(value)) == value);
  }
}

TEST_CASE("durations") {
  CHECK(ParseDuration("30m") == 1800);
  CHECK(ParseDuration("3h55m") == 3 * 3600 + 55 * 60);
  CHECK(ParseDuration("1d12h") == 36 * 3600);
  CHECK(ParseDuration("1.5s") == 1.5);
  CHECK(ParseDuration("250ms") == 0.25);
  CHECK(ParseDuration("90") == 90);
  CHECK(ParseDuration("0") == 0);
  for (const char* text : {"", "m", "30 m", "-5m", "-5", "5m5m", "5s3m", "5m3", "3h55", "1w", "1.2.3s",
                           "30minutes", "1e13", "99999999999d"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseDuration(text).has_value());
  }
}

TEST_CASE("durations are written so that they read back equal") {
  CHECK(FormatDuration(1800) == "30m");
  CHECK(FormatDuration(3 * 3600 + 55 * 60) == "3h55m");
  CHECK(FormatDuration(0) == "0s");
  CHECK(FormatDuration(86400 + 1) == "1d1s");
  for (double seconds : {0.25, 1.1 * 3600, 1e-7, 61.0, 1e12, 123456.789, 0.1 + 0.2}) {
    CAPTURE(FormatDuration(seconds));
    CHECK(ParseDuration(FormatDuration(seconds)) == seconds);
  }
}

TEST_CASE("sizes") {
  CHECK(ParseSize("5GB") == 5000000000);
  CHECK(ParseSize("500MB") == 500000000);
  CHECK(ParseSize("16KiB") == 16384);
  CHECK(ParseSize("1.5 GiB") == 1610612736);
  CHECK(ParseSize("2tb") == 2000000000000);
  CHECK(ParseSize("4096") == 4096);
  CHECK(ParseSize("12B") == 12);
  CHECK(ParseSize("0") == 0);
  for (const char* text : {"", "GB", "-5GB", "5G", "5XB", "5GB5", "1e3", "99999999TiB"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseSize(text).has_value());
  }
}

TEST_CASE("sizes written") {
  CHECK(FormatSize(25'000'000) == "25MB");
  CHECK(FormatSize(4096) == "4096");
  CHECK(FormatSize(0) == "0");
  for (const int64_t bytes : std::vector<int64_t>{1, 999, 1000, 1500, 2'000'000'000'000, 123'456'000}) {
    CHECK(ParseSize(FormatSize(bytes)) == bytes);
  }
}

TEST_CASE("edit distance") {
  CHECK(EditDistance("", "") == 0);
  CHECK(EditDistance("abc", "") == 3);
  CHECK(EditDistance("lerning_rate", "learning_rate") == 1);
  CHECK(EditDistance("sede", "seed") == 1);  // a swap
  CHECK(EditDistance("kitten", "sitting") == 3);
  CHECK(EditDistance("Max-Steps", "max_steps") == 0);
}

TEST_CASE("nearest word") {
  CHECK(Nearest("cosin", {"constant", "linear", "cosine"}) == "cosine");
  CHECK_FALSE(Nearest("polynomial", {"constant", "linear", "cosine"}).has_value());
  CHECK_FALSE(Nearest("lr", {"r"}).has_value());  // too short to tell
  CHECK_FALSE(Nearest(std::string(100000, 'a'), {"aaa"}).has_value());
}

}  // namespace
}  // namespace ftune
