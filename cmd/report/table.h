// Tables of a terminal.
#pragma once

#include <string>
#include <vector>

namespace ftune {

using TableRow = std::vector<std::string>;

// Where the cells of all columns but the first, which stands to the left, stand.
enum class CellsTo { kLeft, kRight };

// Columns as wide as what is in them. All rows have as many cells as the first.
std::string TableText(const std::vector<TableRow>& rows, CellsTo cells);

}  // namespace ftune
