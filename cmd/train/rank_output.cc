#include "cmd/train/rank_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/strings.h"
#include "cmd/report/progress.h"

namespace ftune {
namespace {

constexpr size_t kMostRemembered = 1000;  // different lines that are remembered

}  // namespace

absl::StatusOr<RankOutput> RankOutput::Create(const std::vector<std::filesystem::path>& files, Screen& screen,
                                              bool terminal) {
  RankOutput output(screen, terminal);
  for (const std::filesystem::path& path : files) {
    FTUNE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
    Descriptor file(open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!file) return IoError(path, "write", errno);
    output.ranks_.push_back({.file = std::move(file)});
  }
  return output;
}

void RankOutput::Take() {
  for (int rank = 0; rank < std::ssize(ranks_); ++rank) Take(rank);
  if (!screen_->closed() || said_closed_) return;
  said_closed_ = true;
  File(0, "nobody reads standard error any more: the run goes on, and what it says is here");
}

void RankOutput::TakeRest() {
  Take();
  for (int rank = 0; rank < std::ssize(ranks_); ++rank) {
    if (!ranks_[rank].line.empty()) TakeLine(rank, std::exchange(ranks_[rank].line, ""));
  }
  if (line_drawn_) screen_->Write("\n");
  line_drawn_ = false;
}

void RankOutput::Take(int rank) {
  Rank& of = ranks_[rank];
  char bytes[1 << 14];
  while (true) {
    size_t most = sizeof(bytes);
    if (!of.filed.empty()) {
      const Filed& filed = of.filed.front();
      if (of.at == filed.begin) {
        of.at = filed.end;
        of.filed.pop_front();
        continue;
      }
      most = std::min(most, static_cast<size_t>(filed.begin - of.at));
    }
    const ssize_t count = pread(of.file.get(), bytes, most, of.at);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    of.at += count;
    TakeLines(rank, std::string_view(bytes, static_cast<size_t>(count)));
  }
}

void RankOutput::TakeLines(int rank, std::string_view bytes) {
  std::string& line = ranks_[rank].line;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line.append(bytes.substr(0, end));
    if (end == std::string_view::npos && line.size() < kLongestLine) return;
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    TakeLine(rank, std::exchange(line, ""));
  }
}

void RankOutput::TakeLine(int rank, std::string line) {
  const bool passing = !line.empty() && line.back() == kPassingEnd;
  if (passing) line.pop_back();
  if (rank == 0) {
    if (passing && terminal_) {
      screen_->Write(StrCat(line_drawn_ ? kClearLine : "", line));
      line_drawn_ = true;
    } else {
      Show(line);
    }
  } else if (!line.empty() && (shown_.size() >= kMostRemembered || shown_.insert(line).second)) {
    Show(StrCat("[rank ", rank, "] ", line));
  }
  std::deque<std::string>& last = ranks_[rank].last;
  last.push_back(std::move(line));
  if (last.size() > kLastLines) last.pop_front();
}

void RankOutput::Append(int rank, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(ranks_[rank].file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

void RankOutput::Show(std::string_view line) {
  screen_->Write(StrCat(line_drawn_ ? kClearLine : "", line, "\n"));
  line_drawn_ = false;
}

void RankOutput::File(int rank, std::string_view line) {
  const std::string text = StrCat(line, "\n");
  // What cannot be written is lost: it is what the run says, not what it makes.
  const ssize_t count = write(ranks_[rank].file.get(), text.data(), text.size());
  if (count <= 0) return;
  const off_t end = lseek(ranks_[rank].file.get(), 0, SEEK_CUR);
  ranks_[rank].filed.push_back({.begin = end - count, .end = end});
}

}  // namespace ftune
