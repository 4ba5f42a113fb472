// A key-value store in a folder, for ranks that are threads or processes of one machine.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/status_text.h"
#include "parallel/launch/key_value_store.h"

namespace ftune {

class FolderStore final : public KeyValueStore {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  using KeyValueStore::Set;
  absl::Status Set(const std::string& key, const std::string& value, absl::Duration) override {
    static std::atomic<int> count = 0;
    const std::filesystem::path draft = folder_ / StrCat("draft-", getpid(), "-", count++);
    std::ofstream(draft, std::ios::binary) << value;
    std::filesystem::rename(draft, PathOf(key));
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Get(const std::string& key, absl::Duration timeout) override {
    const absl::Time deadline = absl::Now() + timeout;
    while (true) {
      if (std::ifstream file(PathOf(key), std::ios::binary); file) {
        std::ostringstream value;
        value << file.rdbuf();
        return value.str();
      }
      if (absl::Now() >= deadline)
        return UserError(ExitCode::kTimeout, {.message = StrCat("nobody set ", key)});
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  absl::StatusOr<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                                  absl::Duration timeout) override {
    std::vector<std::string> values;
    for (const std::string& key : keys) {
      FTUNE_ASSIGN_OR_RETURN(values.emplace_back(), Get(key, timeout));
    }
    return values;
  }

  absl::Status Trouble(absl::Duration) override {
    const absl::StatusOr<std::string> trouble = Get("trouble", absl::ZeroDuration());
    return trouble.ok() ? DecodeStatus(*trouble) : absl::OkStatus();
  }
  void TellTrouble(const absl::Status& trouble) override {
    if (Trouble(absl::ZeroDuration()).ok()) Set("trouble", EncodeStatus(trouble)).IgnoreError();
  }

 private:
  std::filesystem::path PathOf(std::string key) const {
    for (char& c : key) {
      if (c == '/') c = '~';
    }
    return folder_ / key;
  }

  std::filesystem::path folder_;
};

}  // namespace ftune
