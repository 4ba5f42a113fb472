#include "cmd/watch/log_tail.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/scratch_folder.h"
#include "base/strings.h"

namespace ftune {
namespace {

void Append(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::app) << text;
}

std::vector<int> Numbers(const LogTail::News& news) {
  std::vector<int> numbers;
  for (const nlohmann::json& line : news.lines) numbers.push_back(line["n"]);
  return numbers;
}

using Path = std::filesystem::path;

TEST_CASE("a file that comes later, and grows") {
  const ScratchFolder folder = *ScratchFolder::Create();
  const Path path = folder.path() / "log.jsonl";
  LogTail tail(path, LogTail::From::kBegin);
  CHECK(Numbers(tail.Take()).empty());
  Append(path, "{\"n\": 1}\n{\"n\": 2}\n");
  CHECK(Numbers(tail.Take()) == std::vector<int>{1, 2});
  CHECK(Numbers(tail.Take()).empty());
  Append(path, "{\"n\": 3}\n");
  CHECK(Numbers(tail.Take()) == std::vector<int>{3});
}

TEST_CASE("a line that is torn is read when it is whole") {
  const ScratchFolder folder = *ScratchFolder::Create();
  const Path path = folder.path() / "log.jsonl";
  LogTail tail(path, LogTail::From::kBegin);
  Append(path, "{\"n\": 1}\n{\"n\":");
  CHECK(Numbers(tail.Take()) == std::vector<int>{1});
  CHECK(Numbers(tail.Take()).empty());
  Append(path, " 2}");
  CHECK(Numbers(tail.Take()).empty());
  Append(path, "\n");
  CHECK(Numbers(tail.Take()) == std::vector<int>{2});
}

TEST_CASE("a torn line that the next attempt cuts off") {
  const ScratchFolder folder = *ScratchFolder::Create();
  const Path path = folder.path() / "log.jsonl";
  LogTail tail(path, LogTail::From::kBegin);
  const std::string whole = "{\"n\": 1}\n";
  Append(path, whole + "{\"n\": 2, \"torn");
  CHECK(Numbers(tail.Take()) == std::vector<int>{1});
  std::filesystem::resize_file(path, whole.size());
  Append(path, "{\"n\": 3}\n");
  const LogTail::News news = tail.Take();
  CHECK_FALSE(news.anew);
  CHECK(Numbers(news) == std::vector<int>{3});
}

TEST_CASE("lines that are no objects are left out") {
  const ScratchFolder folder = *ScratchFolder::Create();
  const Path path = folder.path() / "log.jsonl";
  Append(path, "\n[1]\nnot json\n{\"n\": 1}\n\xff\xfe\n{\"n\": 2}\n");
  LogTail tail(path, LogTail::From::kBegin);
  CHECK(Numbers(tail.Take()) == std::vector<int>{1, 2});
}

TEST_CASE("a file that is another one now, also of the same size, or is cut") {
  const ScratchFolder folder = *ScratchFolder::Create();
  const Path path = folder.path() / "log.jsonl";
  Append(path, "{\"n\": 1}\n{\"n\": 2}\n");
  LogTail tail(path, LogTail::From::kBegin);
  CHECK_FALSE(tail.Take().anew);
  std::filesystem::remove(path);
  Append(path, "{\"n\": 3}\n{\"n\": 4}\n");
  LogTail::News news = tail.Take();
  CHECK(news.anew);
  CHECK(Numbers(news) == std::vector<int>{3, 4});
  std::filesystem::resize_file(path, 0);
  Append(path, "{\"n\": 5}\n");
  news = tail.Take();
  CHECK(news.anew);
  CHECK(Numbers(news) == std::vector<int>{5});
  std::filesystem::remove(path);
  news = tail.Take();
  CHECK(news.anew);
  CHECK(news.lines.empty());
  CHECK_FALSE(tail.Take().anew);
}

TEST_CASE("what was there before does not count, where it is not wanted") {
  const ScratchFolder folder = *ScratchFolder::Create();
  const Path path = folder.path() / "log.jsonl";
  Append(path, "{\"n\": 1}\n");
  LogTail tail(path, LogTail::From::kEnd);
  CHECK(Numbers(tail.Take()).empty());
  std::filesystem::remove(path);
  Append(path, "{\"n\": 2}\n{\"n\": 3}\n");
  CHECK(Numbers(tail.Take()) == std::vector<int>{2, 3});
}

TEST_CASE("lines of any length, while they are written") {
  const ScratchFolder folder = *ScratchFolder::Create();
  const Path path = folder.path() / "log.jsonl";
  constexpr int kLines = 400;
  std::thread writer([&] {
    for (int n = 0; n < kLines; ++n) {
      Append(path, StrCat("{\"n\": ", n, ", \"text\": \"", std::string(n * 997, 'x'), "\"}\n"));
    }
  });
  LogTail tail(path, LogTail::From::kBegin);
  int next = 0;
  while (next < kLines) {
    for (const int n : Numbers(tail.Take())) CHECK(n == next++);
  }
  writer.join();
}

}  // namespace
}  // namespace ftune
