#include "cmd/rank_logs.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/report/progress.h"

namespace ftune {

absl::StatusOr<std::vector<int>> RanksWithLogs(const RunPaths& paths, int attempt) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> files, ListFolder(paths.attempt(attempt)));
  std::vector<int> ranks;
  for (const std::filesystem::path& file : files) {
    const std::string name = file.filename().string();
    const size_t begin = std::string_view("rank-").size();
    int rank = 0;
    if (name.size() > begin && absl::SimpleAtoi(name.substr(begin, name.find('.') - begin), &rank) &&
        file == paths.rank_log(attempt, rank)) {
      ranks.push_back(rank);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

absl::Status RankLogs::Print() {
  std::vector<int> ranks;
  if (rank_) {
    ranks = {*rank_};
  } else {
    FTUNE_ASSIGN_OR_RETURN(ranks, RanksWithLogs(paths_, attempt_));
  }
  for (const int rank : ranks) Print(rank, files_[rank]);
  std::fflush(stdout);
  return absl::OkStatus();
}

void RankLogs::Print(int rank, File& of) {
  if (!of.file) of.file = Descriptor(open(paths_.rank_log(attempt_, rank).c_str(), O_RDONLY | O_CLOEXEC));
  char bytes[1 << 16];
  while (of.file) {
    const ssize_t count = read(of.file.get(), bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    of.line.append(bytes, static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end; (end = of.line.find('\n', begin)) != std::string::npos; begin = end + 1) {
      PrintLine(rank, of.line.substr(begin, end - begin));
    }
    of.line.erase(0, begin);
  }
}

void RankLogs::PrintLine(int rank, std::string line) const {
  if (line.ends_with(kPassingEnd)) line.pop_back();
  if (!rank_) std::printf("[rank %d] ", rank);
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
}

void RankLogs::PrintRest() {
  for (auto& [rank, of] : files_) {
    if (!of.line.empty()) PrintLine(rank, std::exchange(of.line, ""));
  }
  std::fflush(stdout);
}

}  // namespace ftune
