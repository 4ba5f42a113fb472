// What of a folder is kept equal in two places, by names within it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ftune {

struct MirrorParts {
  std::vector<std::string> appended;     // files that grow, by whole lines
  std::vector<std::string> growing;      // folders of files that grow
  std::vector<std::string> whole;        // files and folders that appear, and are replaced, as a whole
  std::vector<std::string> collections;  // folders of such; names that begin with a dot are none
  std::vector<std::string> announced;    // those of `whole` that must be there before what is appended tells
};

nlohmann::json Encode(const MirrorParts& parts);
// Throws as the JSON library does where something is missing or of another type.
MirrorParts DecodeMirrorParts(const nlohmann::json& json);

// Whether it is the name of a file that grows, of `appended` or in a folder of such; of one of `whole`, or of
// one in a collection.
bool IsAppended(const MirrorParts& parts, std::string_view name);
bool IsUnit(const MirrorParts& parts, std::string_view name);
// Whether it stays within the folder that it is relative to.
bool StaysInside(std::string_view path);

}  // namespace ftune
