// What a rank tells the ftune that started it: what became of it, and nothing before.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cmd/command.h"

namespace ftune {

// Set in the environment of a rank that ftune has started; "terminal" where its errors end up on one.
inline constexpr char kSupervisedVariable[] = "FTUNE_SUPERVISED";
inline constexpr char kSupervisedOnTerminal[] = "terminal";

std::string EncodeReport(const absl::StatusOr<CommandResult>& result);
// Nothing where the text is not whole, as of a rank that was killed.
std::optional<absl::StatusOr<CommandResult>> DecodeReport(const std::string& text);

// Writes it to kReportDescriptor.
void SendReport(const absl::StatusOr<CommandResult>& result);

}  // namespace ftune
