// Makes a plan and shows it: in words, as JSON, and in the files that were asked for.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "cmd/command.h"
#include "cmd/plan/target.h"
#include "cmd/recipe/load.h"
#include "cmd/run_options.h"

namespace ftune {

inline constexpr char kExplainFlag[] = "--explain";
inline constexpr char kTraceFlag[] = "--trace";
inline constexpr char kHtmlFlag[] = "--html";

struct ShowOptions {
  bool explain = false;
  std::string trace;  // files to write; empty: not wanted
  std::string html;

  bool traced() const { return explain || !trace.empty() || !html.empty(); }
};

// Exit status 3 where the recipe does not fit.
absl::StatusOr<CommandResult> ShowPlan(LoadedRecipe& loaded, const ModelPlan& model,
                                       const std::optional<Target>& target, const ShowOptions& options,
                                       const Invocation& invocation);

}  // namespace ftune
