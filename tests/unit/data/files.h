// Files that tests write, and real material that they read where it is there.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace ftune {

// A folder of its own, removed with all that is in it.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ftune_data_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  // Writes a file and gives its path.
  std::string Write(const std::string& name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline std::filesystem::path SourceFile(const std::string& name) {
  return std::filesystem::path(FTUNE_SOURCE_DIR) / name;
}

// A file of the shared material; empty (and said so, for the count of skipped tests) where it is absent.
inline std::filesystem::path Material(const std::string& name) {
  const std::filesystem::path path = SourceFile("../shared/material/" + name);
  if (std::filesystem::exists(path)) return path;
  std::printf("SKIP: shared/material/%s is absent\n", name.c_str());
  return {};
}

}  // namespace ftune
