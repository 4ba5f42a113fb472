// Files of rows, read front to back in blocks of a few megabytes: memory is bounded whatever their size, and
// the rows of a block can be parsed, rendered and tokenised by several threads.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/source/row.h"

namespace ftune {

// The names of a CSV file's columns.
struct CsvHeader {
  std::vector<std::string> columns;
  char separator = ',';
};

// Whole rows of one file, as they stand there.
struct RowBlock {
  enum class Encoding {
    kJson,      // a row is the text of one JSON object
    kCsv,       // a row is one record
    kDocument,  // the row is the text of a document
  };
  struct Row {
    size_t begin = 0;  // bytes [begin, begin + size) of `bytes`
    size_t size = 0;
    int64_t line = 0;    // 1-based line of the row's begin; in a table without lines, its 1-based number
    int64_t column = 1;  // 1-based byte of that line at which the row begins
  };

  std::string file;  // as errors name it
  Encoding encoding = Encoding::kJson;
  std::string bytes;
  std::vector<Row> rows;                    // in order
  std::shared_ptr<const CsvHeader> header;  // of kCsv
  std::map<size_t, absl::Status> bad_rows;  // by index: why there is no text; not those that ParseRow finds

  std::string_view text(size_t row) const {
    return std::string_view(bytes).substr(rows[row].begin, rows[row].size);
  }
  RowPlace PlaceOf(size_t row) const { return {file, rows[row].line}; }
};

// Not thread-safe. The blocks, and where they are cut, are a function of the files' content alone.
class BlockReader {
 public:
  virtual ~BlockReader() = default;
  // The next block; nothing at the end. Errors name the file, and the line where there is one.
  virtual absl::StatusOr<std::optional<RowBlock>> Next() = 0;
};

// Thread-safe. A row of kJson or kCsv (each column a string) as an object; of kDocument: {"text": …}. Text
// that is not UTF-8 and JSON that is broken are errors with file and line, as are bad rows.
absl::StatusOr<OrderedJson> ParseRow(const RowBlock& block, size_t row);

}  // namespace ftune
