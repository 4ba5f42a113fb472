// What a file holds, told from its name and from its first bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "data/source/row.h"

namespace ftune {

enum class FileKind {
  kJsonLines,  // .jsonl, .ndjson: a row a line
  kJson,       // .json: a list of rows, an object with such a list, or JSON Lines
  kCsv,        // .csv, .tsv, .tab
  kText,       // .txt, .text: one document
  kArrow,      // .parquet, .arrow, .feather
};

// By the name, without .gz or .zst behind it; nothing where it says nothing.
std::optional<FileKind> KindByName(std::string_view path);

// Of a .csv file: 0, which the header tells; of others a tab.
char CsvSeparatorByName(std::string_view path);

enum class Packing { kNone, kGzip, kZstd };

// How many of a file's first bytes the functions below want to see.
inline constexpr size_t kMagicBytes = 64;
Packing DetectPacking(std::string_view begin);

// An error that names what the file is, where it is a container or an encoding that rows are not read from.
// `free_text`: it may begin with any word, be it the mark of a container.
absl::Status RefuseForeign(std::string_view begin, bool free_text, const RowPlace& place);

}  // namespace ftune
