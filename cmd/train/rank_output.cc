#include "cmd/train/rank_output.h"

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"

namespace ftune {
namespace {

constexpr std::string_view kClearLine = "\r\033[K";
constexpr size_t kMostShown = 1000;  // different lines that are remembered

// Of a line that was drawn several times over, as on a terminal, the last state.
std::string WithoutRedrawing(std::string line) {
  const size_t last = line.rfind(kClearLine);
  return last == std::string::npos ? line : line.substr(last + kClearLine.size());
}

}  // namespace

absl::StatusOr<RankOutput> RankOutput::Create(const std::vector<std::filesystem::path>& files, std::FILE* out,
                                              bool terminal) {
  RankOutput output(out, terminal);
  for (const std::filesystem::path& path : files) {
    FTUNE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
    std::FILE* file = std::fopen(path.c_str(), "we");
    if (file == nullptr) return IoError(path, "write", errno);
    output.ranks_.push_back({.file = std::unique_ptr<std::FILE, CloseFile>(file)});
  }
  return output;
}

void RankOutput::Take(int rank, std::string_view bytes) {
  if (rank == 0) {
    std::fwrite(bytes.data(), 1, bytes.size(), out_);
    std::fflush(out_);
    line_drawn_ = bytes.back() != '\n';
  }
  std::string& line = ranks_[rank].line;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line.append(bytes.substr(0, end));
    if (end == std::string_view::npos && line.size() < kLongestLine) return;
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    TakeLine(rank, WithoutRedrawing(std::exchange(line, "")));
  }
}

void RankOutput::TakeLine(int rank, std::string line) {
  File(rank, line);
  const bool fresh = shown_.size() >= kMostShown || shown_.insert(line).second;
  if (rank != 0 && fresh && !line.empty()) {
    if (terminal_ && line_drawn_) std::fwrite(kClearLine.data(), 1, kClearLine.size(), out_);
    line_drawn_ = false;
    std::fprintf(out_, "[rank %d] %s\n", rank, line.c_str());
    std::fflush(out_);
  }
  std::deque<std::string>& last = ranks_[rank].last;
  last.push_back(std::move(line));
  if (last.size() > kLastLines) last.pop_front();
}

void RankOutput::File(int rank, std::string_view line) {
  std::FILE* file = ranks_[rank].file.get();
  std::fprintf(file, "%.*s\n", static_cast<int>(line.size()), line.data());
  std::fflush(file);
}

}  // namespace ftune
