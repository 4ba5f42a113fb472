// Files of rows as blocks, whatever they are written in.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/file/byte_source.h"
#include "data/file/data_file.h"
#include "data/file/file_kind.h"
#include "data/file/scanned_reader.h"
#include "data/source/block_reader.h"

namespace ftune {

struct OpenOptions : BlockOptions {
  std::optional<FileKind> kind;  // else by the name, or where that says nothing by the first bytes
};

// The rows of one file. Errors have the file, its line where there is one, and exit code 4.
absl::StatusOr<std::unique_ptr<BlockReader>> OpenFileBlocks(const DataFile& file,
                                                            const OpenOptions& options = {});

// The rows in bytes that are read once, a pipe's say; `name` stands for a file's path.
absl::StatusOr<std::unique_ptr<BlockReader>> OpenBytesBlocks(const std::string& name,
                                                             std::unique_ptr<ByteSource> bytes,
                                                             const OpenOptions& options = {});

// The rows of all files, one after the other; each is opened when its turn comes.
std::unique_ptr<BlockReader> OpenFilesBlocks(std::vector<DataFile> files, const OpenOptions& options = {});

// The rows of all that `path` names (see ListSource).
absl::StatusOr<std::unique_ptr<BlockReader>> OpenBlocks(const std::string& path,
                                                        const OpenOptions& options = {});

}  // namespace ftune
