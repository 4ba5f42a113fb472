#include "cmd/watch/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace ftune {
namespace {

Descriptor OpenToRead(const std::filesystem::path& path) {
  return Descriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

LogTail::LogTail(std::filesystem::path path, From from) : path_(std::move(path)) {
  if (from == From::kBegin) return;
  file_ = OpenToRead(path_);
  if (file_) at_ = lseek(file_.get(), 0, SEEK_END);
}

bool LogTail::IsReplaced() const {
  struct stat named = {}, opened = {};
  if (stat(path_.c_str(), &named) != 0 || fstat(file_.get(), &opened) != 0) return true;
  return named.st_ino != opened.st_ino || named.st_dev != opened.st_dev || opened.st_size < at_;
}

LogTail::News LogTail::Take() {
  News news;
  if (file_ && IsReplaced()) {
    file_ = Descriptor();
    at_ = 0;
    news.anew = true;
  }
  if (!file_) file_ = OpenToRead(path_);
  if (!file_) return news;
  std::string unread;  // from at_ on
  char bytes[1 << 16];
  while (true) {
    const ssize_t count = pread(file_.get(), bytes, sizeof(bytes), at_ + static_cast<off_t>(unread.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return news;
    unread.append(bytes, static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end; (end = unread.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string_view line(unread.data() + begin, end - begin);
      nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (object.is_object()) news.lines.push_back(std::move(object));
    }
    at_ += static_cast<off_t>(begin);
    unread.erase(0, begin);
  }
}

}  // namespace ftune
