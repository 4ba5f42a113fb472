// The files of a data section's entries, and whether they stayed as they were.
#pragma once

#include <sys/types.h>

#include <ctime>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/xxh3_stream.h"
#include "data/file/data_file.h"
#include "data/source/dataset.h"

namespace ftune {

// A file's content when it was looked at.
struct HashedFile {
  DataFile file;
  int64_t size = 0;
  Hash128 hash = {};  // XXH3-128
  // Where and when: any change to the file shows in one of these.
  dev_t device = 0;
  ino_t inode = 0;
  timespec modified = {}, changed = {};
};

// Reads all of the file.
absl::StatusOr<HashedFile> HashFile(const DataFile& file);

// An error where the file is no longer the one that was hashed.
absl::Status CheckUnchanged(const HashedFile& file);

// What an entry names, in the order in which it is read.
absl::StatusOr<std::vector<DataFile>> ListEntry(const DatasetEntry& entry);
absl::StatusOr<std::vector<HashedFile>> HashEntry(const DatasetEntry& entry);

}  // namespace ftune
