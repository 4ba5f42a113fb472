// Files of rows as blocks, whatever they are written in.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "data/file/file_kind.h"
#include "data/file/scanned_reader.h"
#include "data/file/source_file.h"
#include "data/source/block_reader.h"

namespace ftune {

struct OpenOptions : BlockOptions {
  std::optional<FileKind> kind;  // else by the name, or where that says nothing by the first bytes
};

// The rows of one file. Errors have the file, its line where there is one, and exit code 4.
absl::StatusOr<std::unique_ptr<BlockReader>> OpenFileBlocks(const SourceFile& file,
                                                            const OpenOptions& options = {});

// The rows of all that `path` names, file after file.
absl::StatusOr<std::unique_ptr<BlockReader>> OpenBlocks(const std::string& path,
                                                        const OpenOptions& options = {});

}  // namespace ftune
