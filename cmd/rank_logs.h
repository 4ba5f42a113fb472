// The logs of an attempt's ranks, printed as they grow.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "cmd/run_folder.h"

namespace ftune {

// In their order.
absl::StatusOr<std::vector<int>> RanksWithLogs(const RunPaths& paths, int attempt);

class RankLogs {
 public:
  // Of one rank, or of all, whose lines then begin with the rank.
  RankLogs(RunPaths paths, int attempt, std::optional<int> rank)
      : paths_(std::move(paths)), attempt_(attempt), rank_(rank) {}

  int attempt() const { return attempt_; }
  // On standard output, the lines that have come since.
  absl::Status Print();
  // And what they began and have not ended: nothing more comes.
  void PrintRest();

 private:
  struct File {
    Descriptor file;
    std::string line;  // begun
  };

  void Print(int rank, File& file);
  void PrintLine(int rank, std::string line) const;

  RunPaths paths_;
  int attempt_;
  std::optional<int> rank_;
  std::map<int, File> files_;  // by rank
};

}  // namespace ftune
