#include "parallel/launch/mirror/mirror_inventory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <optional>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/xxh3_stream.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Nothing where there is none.
absl::StatusOr<std::optional<struct stat>> LookAt(const fs::path& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) == 0) return std::optional(found);
  if (errno == ENOENT || errno == ENOTDIR) return std::optional<struct stat>();
  return IoError(path, "look at", errno);
}

absl::Status AddFiles(const fs::path& path, const std::string& within, Unit& unit) {
  FTUNE_ASSIGN_OR_RETURN(const std::optional<struct stat> found, LookAt(path));
  if (!found) return absl::OkStatus();
  if (S_ISREG(found->st_mode)) {
    unit.push_back({.path = within,
                    .size = found->st_size,
                    .modified = found->st_mtim.tv_sec * kNanoseconds + found->st_mtim.tv_nsec});
  }
  if (!S_ISDIR(found->st_mode)) return absl::OkStatus();
  const absl::StatusOr<std::vector<fs::path>> entries = ListFolder(path);
  if (!entries.ok()) return Exists(path) ? entries.status() : absl::OkStatus();
  for (const fs::path& entry : *entries) {
    FTUNE_RETURN_IF_ERROR(AddFiles(entry, (fs::path(within) / entry.filename()).string(), unit));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Unit> LookAtUnit(const fs::path& path) {
  Unit unit;
  FTUNE_RETURN_IF_ERROR(AddFiles(path, "", unit));
  std::sort(unit.begin(), unit.end(), [](const UnitFile& a, const UnitFile& b) { return a.path < b.path; });
  return unit;
}

absl::StatusOr<std::map<std::string, Unit>> LookAtUnits(const fs::path& folder, const MirrorParts& parts) {
  std::vector<std::string> names = parts.whole;
  for (const std::string& collection : parts.collections) {
    if (!Exists(folder / collection)) continue;
    FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(folder / collection));
    for (const fs::path& entry : entries) {
      const std::string name = (fs::path(collection) / entry.filename()).string();
      if (IsUnit(parts, name)) names.push_back(name);
    }
  }
  std::map<std::string, Unit> units;
  for (const std::string& name : names) {
    FTUNE_ASSIGN_OR_RETURN(Unit unit, LookAtUnit(folder / name));
    if (!unit.empty()) units.emplace(name, std::move(unit));
  }
  return units;
}

absl::StatusOr<AppendedFile> LookAtLines(const fs::path& path, const std::string& skipped,
                                         std::optional<int64_t> size) {
  AppendedFile found;
  Xxh3Stream hash;
  std::ifstream file(path, std::ios::binary);
  if (!file && Exists(path)) return IoError(path, "open", errno);
  std::string line;
  while (found.size < size.value_or(std::numeric_limits<int64_t>::max()) && std::getline(file, line)) {
    if (line.find(skipped) != std::string::npos) continue;
    line += '\n';
    hash.Add(line);
    found.size += std::ssize(line);
  }
  found.hash = hash.Digest64();
  return found;
}

absl::StatusOr<uint64_t> HashOfStart(const fs::path& path, int64_t size) {
  // No mapping: somebody may shorten the file meanwhile.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return IoError(path, "open", errno);
  Xxh3Stream hash;
  std::string bytes(size_t{1} << 18, '\0');
  while (size > 0) {
    const ssize_t count = read(file.get(), bytes.data(), std::min<size_t>(bytes.size(), size));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(path, "read", errno);
    if (count == 0) break;
    hash.Add(std::string_view(bytes).substr(0, static_cast<size_t>(count)));
    size -= count;
  }
  return hash.Digest64();
}

absl::StatusOr<std::vector<std::string>> AppendedNames(const fs::path& folder, const MirrorParts& parts) {
  std::vector<std::string> names;
  for (const std::string& name : parts.appended) {
    if (Exists(folder / name)) names.push_back(name);
  }
  for (const std::string& growing : parts.growing) {
    if (!Exists(folder / growing)) continue;
    FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(folder / growing));
    for (const fs::path& entry : entries) {
      const std::string name = (fs::path(growing) / entry.filename()).string();
      if (IsAppended(parts, name)) names.push_back(name);
    }
  }
  return names;
}

absl::StatusOr<MirrorInventory> TakeInventory(const fs::path& folder, const MirrorParts& parts) {
  MirrorInventory inventory;
  FTUNE_ASSIGN_OR_RETURN(inventory.units, LookAtUnits(folder, parts));
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> names, AppendedNames(folder, parts));
  for (const std::string& name : names) {
    FTUNE_ASSIGN_OR_RETURN(const std::optional<struct stat> found, LookAt(folder / name));
    if (!found) continue;
    AppendedFile file = {.size = found->st_size};
    FTUNE_ASSIGN_OR_RETURN(file.hash, HashOfStart(folder / name, file.size));
    inventory.appended[name] = file;
  }
  return inventory;
}

Json Encode(const Unit& unit) {
  Json files = Json::array();
  for (const UnitFile& file : unit) files.push_back({file.path, file.size, file.modified});
  return files;
}

Unit DecodeUnit(const Json& json) {
  Unit unit;
  for (const Json& file : json) {
    unit.push_back({.path = file.at(0).get<std::string>(),
                    .size = file.at(1).get<int64_t>(),
                    .modified = file.at(2).get<int64_t>()});
  }
  return unit;
}

Json Encode(const MirrorInventory& inventory) {
  Json units = Json::object(), appended = Json::object();
  for (const auto& [name, unit] : inventory.units) units[name] = Encode(unit);
  for (const auto& [name, file] : inventory.appended) appended[name] = {file.size, file.hash};
  return {{"units", units}, {"appended", appended}};
}

MirrorInventory DecodeMirrorInventory(const Json& json) {
  MirrorInventory inventory;
  for (const auto& [name, unit] : json.at("units").items()) inventory.units[name] = DecodeUnit(unit);
  for (const auto& [name, file] : json.at("appended").items()) {
    inventory.appended[name] = {.size = file.at(0).get<int64_t>(), .hash = file.at(1).get<uint64_t>()};
  }
  return inventory;
}

}  // namespace ftune
