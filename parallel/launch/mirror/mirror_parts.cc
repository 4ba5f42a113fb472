#include "parallel/launch/mirror/mirror_parts.h"

#include <algorithm>
#include <filesystem>

namespace ftune {
namespace {

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Directly, and not hidden.
bool IsIn(const std::vector<std::string>& folders, std::string_view name) {
  const size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view last = name.substr(slash + 1);
  return Has(folders, name.substr(0, slash)) && !last.empty() && !last.starts_with('.');
}

}  // namespace

nlohmann::json Encode(const MirrorParts& parts) {
  return {{"appended", parts.appended},
          {"growing", parts.growing},
          {"whole", parts.whole},
          {"collections", parts.collections},
          {"announced", parts.announced}};
}

MirrorParts DecodeMirrorParts(const nlohmann::json& json) {
  return {.appended = json.at("appended").get<std::vector<std::string>>(),
          .growing = json.at("growing").get<std::vector<std::string>>(),
          .whole = json.at("whole").get<std::vector<std::string>>(),
          .collections = json.at("collections").get<std::vector<std::string>>(),
          .announced = json.at("announced").get<std::vector<std::string>>()};
}

bool IsAppended(const MirrorParts& parts, std::string_view name) {
  return Has(parts.appended, name) || IsIn(parts.growing, name);
}

bool IsUnit(const MirrorParts& parts, std::string_view name) {
  return Has(parts.whole, name) || IsIn(parts.collections, name);
}

bool StaysInside(std::string_view path) {
  const std::filesystem::path parts(path);
  return parts.is_relative() &&
         std::none_of(parts.begin(), parts.end(), [](const auto& part) { return part == ".."; });
}

}  // namespace ftune
