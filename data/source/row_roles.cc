#include "data/source/row_roles.h"

#include "base/strings.h"

namespace ftune {
namespace {

struct RoleName {
  const char* name;
  const char* role;
};
// Names met in datasets: ShareGPT exports, LLaMA-Factory, FastChat, OpenAI's older format, model families.
constexpr RoleName kRoleNames[] = {
    {"system", kSystemRole},
    {"developer", "developer"},
    {"user", kUserRole},
    {"human", kUserRole},
    {"prompter", kUserRole},
    {"assistant", kAssistantRole},
    {"gpt", kAssistantRole},
    {"chatgpt", kAssistantRole},
    {"bing", kAssistantRole},
    {"bard", kAssistantRole},
    {"model", kAssistantRole},
    {"tool", kToolRole},
    {"function", kToolRole},
    {"observation", kToolRole},
    {"function_response", kToolRole},
    {"tool_response", kToolRole},
    {"ipython", kToolRole},
    {"function_call", kFunctionCallRole},
    {"tool_call", kFunctionCallRole},
};

}  // namespace

const std::vector<std::string>& RoleNames() {
  static const std::vector<std::string> names = {kSystemRole,    "developer", kUserRole,
                                                 kAssistantRole, kToolRole,   kFunctionCallRole};
  return names;
}

std::optional<std::string> CanonicalRole(const std::string& name, const RowMapping& mapping) {
  if (const auto mapped = mapping.roles.find(name); mapped != mapping.roles.end()) return mapped->second;
  const std::string lower = Lower(name);
  for (const RoleName& known : kRoleNames) {
    if (lower == known.name) return known.role;
  }
  return std::nullopt;
}

}  // namespace ftune
