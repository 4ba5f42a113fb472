#include "data/template/builtin_templates.h"

#include <vector>

#include "base/strings.h"

namespace ftune {
namespace {

struct BuiltinTemplate {
  std::string_view name;
  std::string_view source;
};

constexpr BuiltinTemplate kTemplates[] = {
#include "builtin_templates.inc"  // made of the files by CMake
};

}  // namespace

std::optional<std::string_view> FindBuiltinTemplate(std::string_view name) {
  for (const BuiltinTemplate& held : kTemplates) {
    if (held.name == name) return held.source;
  }
  return std::nullopt;
}

std::string BuiltinTemplateNames() {
  std::vector<std::string> names;
  for (const BuiltinTemplate& held : kTemplates) names.emplace_back(held.name);
  return StrJoin(names, ", ");
}

}  // namespace ftune
