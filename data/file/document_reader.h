// A file of plain text: one document, one row, one block.
#pragma once

#include <memory>
#include <string>

#include "data/file/byte_source.h"
#include "data/file/scanned_reader.h"

namespace ftune {

class DocumentReader : public BlockReader {
 public:
  DocumentReader(std::string file, std::unique_ptr<ByteSource> bytes, const BlockOptions& options)
      : file_(std::move(file)), bytes_(std::move(bytes)), options_(options) {}

  absl::StatusOr<std::optional<RowBlock>> Next() override;

 private:
  std::string file_;
  std::unique_ptr<ByteSource> bytes_;  // null when read
  BlockOptions options_;
};

}  // namespace ftune
