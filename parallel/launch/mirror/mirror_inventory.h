// What a folder has of its parts, so that two can be compared without reading what is in them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "parallel/launch/mirror/mirror_parts.h"

namespace ftune {

inline constexpr int64_t kNanoseconds = 1'000'000'000;  // of a second

// A file of a unit. Two are taken for the same where all three are: who copies one gives it the time of the
// original.
struct UnitFile {
  std::string path;      // within the unit; empty: the unit is this file
  int64_t size = 0;      // bytes
  int64_t modified = 0;  // nanoseconds since 1970

  bool operator==(const UnitFile&) const = default;
};
using Unit = std::vector<UnitFile>;  // sorted by path

struct AppendedFile {
  int64_t size = 0;
  uint64_t hash = 0;  // of its bytes

  bool operator==(const AppendedFile&) const = default;
};

struct MirrorInventory {
  std::map<std::string, Unit> units;
  std::map<std::string, AppendedFile> appended;
};

// What goes while it is looked at may be there in part.
absl::StatusOr<Unit> LookAtUnit(const std::filesystem::path& path);
absl::StatusOr<std::map<std::string, Unit>> LookAtUnits(const std::filesystem::path& folder,
                                                        const MirrorParts& parts);
// The names of the files that grow and are there.
absl::StatusOr<std::vector<std::string>> AppendedNames(const std::filesystem::path& folder,
                                                       const MirrorParts& parts);
// Reads the appended files.
absl::StatusOr<MirrorInventory> TakeInventory(const std::filesystem::path& folder, const MirrorParts& parts);
// Of the lines of a file that do not have `skipped` in them: of all, or of the first that have `size` bytes
// together. Empty where there is no such file.
absl::StatusOr<AppendedFile> LookAtLines(const std::filesystem::path& path, const std::string& skipped,
                                         std::optional<int64_t> size = std::nullopt);
// Of the first `size` bytes of a file, which has as many.
absl::StatusOr<uint64_t> HashOfStart(const std::filesystem::path& path, int64_t size);

nlohmann::json Encode(const Unit& unit);
nlohmann::json Encode(const MirrorInventory& inventory);
// Throw as the JSON library does.
Unit DecodeUnit(const nlohmann::json& json);
MirrorInventory DecodeMirrorInventory(const nlohmann::json& json);

}  // namespace ftune
