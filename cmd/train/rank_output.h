// What the ranks write, each to a file of its own; and what a person should see of it on a screen. The files
// come first: no rank waits for somebody who reads.
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
#include "base/descriptor.h"
#include "cmd/report/screen.h"

namespace ftune {

class RankOutput {
 public:
  // One file a rank, which is made anew. The screen, which outlives this, shows all that rank 0 writes, and
  // of the others each line once, with the rank's name. On a `terminal` passing lines are drawn over.
  static absl::StatusOr<RankOutput> Create(const std::vector<std::filesystem::path>& files, Screen& screen,
                                           bool terminal);

  // Shows what the ranks have written since.
  void Take();
  // And the lines that they began and have not ended: they have ended.
  void TakeRest();
  // What a rank on another host has written, to its file: shown with the rest.
  void Append(int rank, std::string_view bytes);
  // A line in the rank's file alone.
  void File(int rank, std::string_view line);
  // A line on the screen alone.
  void Show(std::string_view line);
  // The last lines of a rank, at most kLastLines.
  const std::deque<std::string>& LastLines(int rank) const { return ranks_[rank].last; }

 private:
  static constexpr size_t kLastLines = 10;
  static constexpr size_t kLongestLine = 1 << 16;

  struct Filed {
    off_t begin, end;
  };
  struct Rank {
    Descriptor file;
    off_t at = 0;             // up to where it is read
    std::deque<Filed> filed;  // behind that: not by the rank
    std::string line;         // begun
    std::deque<std::string> last;
  };

  RankOutput(Screen& screen, bool terminal) : screen_(&screen), terminal_(terminal) {}
  void Take(int rank);
  void TakeLines(int rank, std::string_view bytes);
  void TakeLine(int rank, std::string line);

  Screen* screen_;
  bool terminal_;
  bool line_drawn_ = false;      // and not ended
  bool said_closed_ = false;     // in a file
  std::set<std::string> shown_;  // lines of the other ranks, which often say the same
  std::vector<Rank> ranks_;
};

}  // namespace ftune
