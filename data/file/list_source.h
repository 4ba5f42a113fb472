// What a recipe names as a dataset, as files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/file/data_file.h"

namespace ftune {

inline constexpr char kStandardInput[] = "-";

// A file; a folder: those files in and below it whose names tell what they hold, hidden ones left out, in
// natural order; a pattern (see MatchFiles), unless a file has that very name; or "-": standard input, which
// is copied into a file without a name, so that it can be read again, and is a source once. A folder or
// pattern without files is an error, and so is a folder with both tables and plain text.
absl::StatusOr<std::vector<DataFile>> ListSource(const std::string& path);

// The copy of what `fd` still has to give, in a file without a name in `folder`.
absl::StatusOr<DataFile> SpoolInput(int fd, const std::filesystem::path& folder);

}  // namespace ftune
