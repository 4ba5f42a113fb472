// JSON Lines files: one JSON object a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mapped_file.h"
#include "data/source/row.h"

namespace ftune {

// `text` without a byte-order mark; UTF-16 is an error.
absl::StatusOr<std::string_view> WithoutByteOrderMark(std::string_view text, const RowPlace& place);

// An error with the line, where `text` (which begins in place.line) is not UTF-8.
absl::Status CheckUtf8(std::string_view text, const RowPlace& place);

class JsonlFile {
 public:
  struct Line {
    int64_t number = 0;     // 1-based, blank lines counted
    std::string_view text;  // into the mapping; without LF (a CR before it is white space in JSON)
  };

  // An error where the file is missing, a folder, something else than JSON Lines, or has no line that is not
  // blank.
  static absl::StatusOr<JsonlFile> Open(const std::filesystem::path& path);

  // Lines that are not blank.
  const std::vector<Line>& lines() const { return lines_; }
  RowPlace PlaceOf(const Line& line) const { return {file_.path().string(), line.number}; }

  // Thread-safe. The line's object; keys keep their order. An error has the line.
  absl::StatusOr<OrderedJson> Parse(const Line& line) const;

 private:
  explicit JsonlFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  std::vector<Line> lines_;
};

}  // namespace ftune
