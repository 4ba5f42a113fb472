// A file that is to be read: one that has a path, or what came on standard input.
#pragma once

#include <memory>
#include <string>

#include "base/scratch_file.h"
#include "data/file/byte_source.h"

namespace ftune {

struct DataFile {
  std::string path;                          // as errors name it
  std::shared_ptr<const ScratchFile> spool;  // where the bytes are, if not at the path

  bool is_standard_input() const { return spool != nullptr; }
};

// The bytes of a regular file as they stand on the disk, read with pread: no page of it stays resident. An
// error at the end where the file grew, shrank or was written to since it was opened. May be called as often
// as wanted.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileBytes(const DataFile& file);

}  // namespace ftune
