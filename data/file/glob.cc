#include "data/file/glob.h"

#include <fnmatch.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/folder.h"

namespace ftune {
namespace {

constexpr std::string_view kAnyFolders = "**";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The number that begins at *at as its digits without leading zeros; *at is moved behind it.
std::string_view TakeNumber(std::string_view text, size_t* at) {
  while (*at + 1 < text.size() && text[*at] == '0' && IsDigit(text[*at + 1])) ++*at;
  const size_t begin = *at;
  while (*at < text.size() && IsDigit(text[*at])) ++*at;
  return text.substr(begin, *at - begin);
}

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

std::string Join(const std::string& folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return (std::filesystem::path(folder) / name).string();
}

// Goes through folders, and through none of them within itself.
class Walk {
 public:
  // Files that the pattern's names from `names[first]` on match in `folder`.
  absl::Status Match(const std::string& folder, const std::vector<std::string>& names, size_t first) {
    const std::string& name = names[first];
    const bool last = first + 1 == names.size();
    if (name == kAnyFolders) {
      if (!last) FTUNE_RETURN_IF_ERROR(Match(folder, names, first + 1));
      return Enter(folder, [&](const std::string& path, std::string_view entry) -> absl::Status {
        if (entry.starts_with('.')) return absl::OkStatus();
        if (IsFolder(path)) return Match(path, names, first);
        if (last) files_.push_back(path);
        return absl::OkStatus();
      });
    }
    const auto take = [&](const std::string& path) -> absl::Status {
      const bool is_folder = IsFolder(path);
      if (last && !is_folder) files_.push_back(path);
      return !last && is_folder ? Match(path, names, first + 1) : absl::OkStatus();
    };
    if (!IsPattern(name)) return Exists(Join(folder, name)) ? take(Join(folder, name)) : absl::OkStatus();
    return Enter(folder, [&](const std::string& path, std::string_view entry) -> absl::Status {
      const bool matches = fnmatch(name.c_str(), std::string(entry).c_str(), FNM_PERIOD) == 0;
      return matches ? take(path) : absl::OkStatus();
    });
  }

  std::vector<std::string> TakeFiles() {
    std::sort(files_.begin(), files_.end(), NaturallyBefore);
    files_.erase(std::unique(files_.begin(), files_.end()), files_.end());
    return std::move(files_);
  }

 private:
  template <class Visit>
  absl::Status Enter(const std::string& folder, const Visit& visit) {
    struct stat info;
    if (stat(folder.empty() ? "." : folder.c_str(), &info) == 0) {
      const std::pair<dev_t, ino_t> id = {info.st_dev, info.st_ino};
      if (std::count(entered_.begin(), entered_.end(), id) > 0) return absl::OkStatus();
      entered_.push_back(id);
    } else {
      entered_.emplace_back();
    }
    FTUNE_ASSIGN_OR_RETURN(const auto paths, ListFolder(folder.empty() ? "." : folder));
    for (const std::filesystem::path& path : paths) {
      const std::string entry = path.filename().string();
      FTUNE_RETURN_IF_ERROR(visit(Join(folder, entry), entry));
    }
    entered_.pop_back();
    return absl::OkStatus();
  }

  std::vector<std::pair<dev_t, ino_t>> entered_;  // the folders that lead to the one that is gone through
  std::vector<std::string> files_;
};

}  // namespace

bool NaturallyBefore(std::string_view a, std::string_view b) {
  const auto rank = [](char c) { return c == '/' ? 0 : 1 + static_cast<unsigned char>(c); };
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (IsDigit(a[i]) && IsDigit(b[j])) {
      const std::string_view x = TakeNumber(a, &i), y = TakeNumber(b, &j);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else if (a[i] != b[j]) {
      return rank(a[i]) < rank(b[j]);
    } else {
      ++i;
      ++j;
    }
  }
  const size_t left_a = a.size() - i, left_b = b.size() - j;
  return left_a != left_b ? left_a < left_b : a < b;  // a1 and a01
}

bool IsPattern(std::string_view path) { return path.find_first_of("*?[") != std::string_view::npos; }

absl::StatusOr<std::vector<std::string>> MatchFiles(const std::string& pattern) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= pattern.size();) {
    const size_t end = std::min(pattern.find('/', begin), pattern.size());
    std::string name = pattern.substr(begin, end - begin);
    begin = end + 1;
    const bool again = name == kAnyFolders && !names.empty() && names.back() == kAnyFolders;
    if (!name.empty() && !again) names.push_back(std::move(name));
  }
  Walk walk;
  if (!names.empty()) FTUNE_RETURN_IF_ERROR(walk.Match(pattern.starts_with('/') ? "/" : "", names, 0));
  return walk.TakeFiles();
}

absl::StatusOr<std::vector<std::string>> FilesBelow(const std::string& folder) {
  Walk walk;
  FTUNE_RETURN_IF_ERROR(walk.Match(folder, {std::string(kAnyFolders)}, 0));
  return walk.TakeFiles();
}

}  // namespace ftune
