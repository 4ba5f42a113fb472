// Parquet and Arrow files (IPC files and streams, Feather 2) as blocks of JSON rows, read by ftune-arrow.so.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "data/source/block_reader.h"

namespace ftune {

// Whether a file that begins with `begin` (8 bytes suffice) is one of OpenArrowBlocks': Parquet, encrypted
// Parquet, an Arrow file, an Arrow stream or the first version of Feather.
bool HasArrowMagic(std::string_view begin);

// Blocks of about 4 MB of rows in RowBlock::Encoding::kJson, cut as the content alone wants it. A column is a
// key, in the file's order; dates, times and decimals are text, a map with text as keys is an object, null
// stays null, integers and floating-point numbers are exact. Resident at once: a record batch of an Arrow
// file, as its writer made them; about 4 MB of rows and a buffer a column of a Parquet file.
// Errors: what is wrong with the file; a type that JSON does not have (with the column) or a value of that
// sort (with the row); no row or column; that the plugin is not there, with what to install.
// `file`: as errors and blocks name it; `begin`: its first bytes; `path`: where they stand.
absl::StatusOr<std::unique_ptr<BlockReader>> OpenArrowBlocks(const std::string& file, std::string_view begin,
                                                             const std::string& path);

}  // namespace ftune
