// What test_arrow.py sees of the rows of Parquet and Arrow files.
//   arrow_rows FILE…          a line a row: its number, a tab, its JSON; then, for each file, a line
//                             "end", or "error", a tab, the exit code, a tab and the message
//   arrow_rows --count FILE…  instead of the rows: "rows", a tab, their number, a tab, their bytes; "peak", a
//   tab,
//                             the most kB that the process has had resident
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/file/open_blocks.h"

namespace ftune {
namespace {

// That of this program alone: getrusage counts the parent's before exec too.
long PeakKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes;
  }
  return 0;
}

absl::Status PrintRows(const std::string& file, bool count) {
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<BlockReader> reader, OpenBlocks(file));
  size_t rows = 0, bytes = 0;
  while (true) {
    FTUNE_ASSIGN_OR_RETURN(const std::optional<RowBlock> block, reader->Next());
    if (!block) break;
    rows += block->rows.size();
    bytes += block->bytes.size();
    for (size_t i = 0; i < block->rows.size() && !count; ++i) {
      if (const auto bad = block->bad_rows.find(i); bad != block->bad_rows.end()) return bad->second;
      const std::string_view text = block->text(i);
      std::printf("%lld\t%.*s\n", static_cast<long long>(block->rows[i].line), static_cast<int>(text.size()),
                  text.data());
    }
  }
  if (count) std::printf("rows\t%zu\t%zu\npeak\t%ld\n", rows, bytes, PeakKilobytes());
  return absl::OkStatus();
}

}  // namespace
}  // namespace ftune

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool count = !arguments.empty() && arguments.front() == "--count";
  for (size_t i = count ? 1 : 0; i < arguments.size(); ++i) {
    const absl::Status status = ftune::PrintRows(arguments[i], count);
    if (status.ok()) {
      std::puts("end");
    } else {
      std::printf("error\t%d\t%s\n", ftune::ExitCodeOf(status), std::string(status.message()).c_str());
    }
  }
  return 0;
}
