#include "data/file/document_reader.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<std::optional<RowBlock>> DocumentReader::Next() {
  if (!bytes_) return std::nullopt;
  RowBlock block{.file = file_, .encoding = RowBlock::Encoding::kDocument};
  std::string& text = block.bytes;
  for (size_t read = 1; read > 0;) {
    const size_t have = text.size();
    text.resize(have + options_.read_bytes);
    FTUNE_ASSIGN_OR_RETURN(read, bytes_->Read(text.data() + have, options_.read_bytes));
    text.resize(have + read);
    if (text.size() > options_.max_row_bytes) {
      return RowError(
          {file_},
          {.message = StrCat("a document of more than ", options_.max_row_bytes >> 20, " MiB"),
           .expected = "shorter documents, which are tokenised whole",
           .hint = "cut the file into several (split -C), or make each paragraph a row of JSON Lines"});
    }
  }
  bytes_.reset();
  block.rows.push_back({0, text.size(), 1});
  return block;
}

}  // namespace ftune
