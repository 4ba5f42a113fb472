#include "cmd/report/table.h"

#include <algorithm>

#include "base/strings.h"

namespace ftune {

std::string TableText(const std::vector<TableRow>& rows, CellsTo cells) {
  std::vector<size_t> widths(rows.front().size());
  for (const TableRow& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const TableRow& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      const bool left = i == 0 || cells == CellsTo::kLeft;
      StrAppend(line, i == 0 ? "" : "  ", left ? row[i] : space, left ? space : row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    StrAppend(text, line, "\n");
  }
  return text;
}

}  // namespace ftune
