// Reading whole files in blocks, for tests.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "data/file/open_blocks.h"

namespace ftune {

struct ReadRows {
  std::vector<std::string> rows;  // as JSON text
  std::vector<int64_t> lines;
  std::vector<std::string> blocks;  // their bytes
  absl::Status error;               // the first, of the file or a row
};

inline ReadRows ReadBlocks(const absl::StatusOr<std::unique_ptr<BlockReader>>& reader) {
  ReadRows read;
  read.error = reader.status();
  while (read.error.ok()) {
    auto block = (*reader)->Next();
    read.error = block.status();
    if (!block.ok() || !*block) break;
    read.blocks.push_back((*block)->bytes);
    for (size_t row = 0; row < (*block)->rows.size() && read.error.ok(); ++row) {
      const auto parsed = ParseRow(**block, row);
      read.error = parsed.status();
      if (!parsed.ok()) break;
      read.rows.push_back(parsed->dump());
      read.lines.push_back((*block)->rows[row].line);
    }
  }
  return read;
}

inline ReadRows ReadPath(const std::string& path, const OpenOptions& options = {}) {
  return ReadBlocks(OpenBlocks(path, options));
}

// An error of data that says `text` and names a file and `line`.
inline void CheckDataError(const absl::Status& status, const std::string& text, int line) {
  REQUIRE_FALSE(status.ok());
  INFO(std::string(status.message()));
  CHECK(ExitCodeOf(status) == 4);
  CHECK(std::string(status.message()).find(text) != std::string::npos);
  CHECK(DetailOf(status)->line == line);
  CHECK_FALSE(DetailOf(status)->file.empty());
}

}  // namespace ftune
