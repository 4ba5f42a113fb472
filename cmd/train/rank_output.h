// What the ranks write to standard error: each rank's in a file of its own, and what a person should see of
// it on standard error, with the rank's name.
#pragma once

#include <cstdio>
#include <deque>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

class RankOutput {
 public:
  // One file a rank, which is made anew. All that rank 0 writes goes to `out` as it comes.
  static absl::StatusOr<RankOutput> Create(const std::vector<std::filesystem::path>& files, std::FILE* out,
                                           bool terminal);

  void Take(int rank, std::string_view bytes);
  // A line in the rank's file alone.
  void File(int rank, std::string_view line);
  // The last lines of a rank, at most kLastLines.
  const std::deque<std::string>& LastLines(int rank) const { return ranks_[rank].last; }

 private:
  static constexpr size_t kLastLines = 10;
  static constexpr size_t kLongestLine = 1 << 16;

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  struct Rank {
    std::unique_ptr<std::FILE, CloseFile> file;
    std::string line;  // begun
    std::deque<std::string> last;
  };

  RankOutput(std::FILE* out, bool terminal) : out_(out), terminal_(terminal) {}
  void TakeLine(int rank, std::string line);

  std::FILE* out_;
  bool terminal_;
  bool line_drawn_ = false;      // by rank 0, and not ended
  std::set<std::string> shown_;  // lines of the other ranks, which often say the same
  std::vector<Rank> ranks_;
};

}  // namespace ftune
