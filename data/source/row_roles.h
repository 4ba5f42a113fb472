// Who speaks in a conversation: the many names of few roles.
#pragma once

#include <optional>
#include <string>

#include "data/source/row_mapping.h"

namespace ftune {

inline constexpr char kSystemRole[] = "system";
inline constexpr char kUserRole[] = "user";
inline constexpr char kAssistantRole[] = "assistant";
inline constexpr char kToolRole[] = "tool";
// A message whose content is a call that the assistant makes, as JSON.
inline constexpr char kFunctionCallRole[] = "function_call";

// The role that chat templates know by the rows' name of it: by the mapping, or by the names that are in
// common use (human, gpt, observation, …). Nothing where it is unknown.
std::optional<std::string> CanonicalRole(const std::string& name, const RowMapping& mapping);

}  // namespace ftune
