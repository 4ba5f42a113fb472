// Real models, tokenizers and configurations beside the tree, which a test may need.
#pragma once

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>

namespace ftune {

// A path in ../shared/material, seen from the tree's root; nothing, and a line that says so, if it is not
// there: the test is skipped then.
inline std::optional<std::filesystem::path> Material(std::string_view name) {
  const std::filesystem::path path = std::filesystem::path(FTUNE_SOURCE_DIR) / "../shared/material" / name;
  if (std::filesystem::exists(path)) return path;
  std::printf("SKIPPED: no ../shared/material/%.*s\n", static_cast<int>(name.size()), name.data());
  return std::nullopt;
}

}  // namespace ftune
