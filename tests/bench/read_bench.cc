// Rates of the file readers: read_bench FILE… prints for each what it takes to find its rows, and to parse
// them too, and the peak of the memory.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "data/file/open_blocks.h"

namespace {

struct Rate {
  double seconds = 0;
  int64_t rows = 0;
  int64_t bytes = 0;  // of the rows
};

bool Read(const std::string& path, bool parse, Rate& rate) {
  const auto start = std::chrono::steady_clock::now();
  auto reader = ftune::OpenBlocks(path);
  while (reader.ok()) {
    auto block = (*reader)->Next();
    if (!block.ok()) {
      std::printf("%s\n", std::string(block.status().message()).c_str());
      return false;
    }
    if (!*block) break;
    rate.rows += static_cast<int64_t>((*block)->rows.size());
    for (size_t row = 0; row < (*block)->rows.size(); ++row) {
      rate.bytes += static_cast<int64_t>((*block)->rows[row].size);
      if (parse && !ftune::ParseRow(**block, row).ok()) return false;
    }
  }
  if (!reader.ok()) std::printf("%s\n", std::string(reader.status().message()).c_str());
  rate.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return reader.ok();
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    Rate scanned, parsed;
    if (!Read(argv[i], false, scanned)) return 1;
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (!Read(argv[i], true, parsed)) return 1;
    std::printf("%s: %lld rows, %.0f MB; scanned at %.0f MB/s in %ld MB, parsed at %.0f MB/s\n", argv[i],
                static_cast<long long>(scanned.rows), scanned.bytes / 1e6,
                scanned.bytes / 1e6 / scanned.seconds, usage.ru_maxrss / 1024,
                parsed.bytes / 1e6 / parsed.seconds);
  }
}
