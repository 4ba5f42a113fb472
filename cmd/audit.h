// The mask audit of a run's training data: said, written down, and its limits kept.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cmd/recipe/recipe.h"
#include "cmd/run_data.h"

namespace ftune {

struct DataAudit {
  AuditReport report;
  std::string first_sample;  // as RenderSample shows it; empty where there is none
};
DataAudit AuditOf(const RunData& data);

// The audit's lines, and the begin of the first sample: what is learned of it in [[ ]].
std::vector<std::string> AuditLines(const DataAudit& audit);

// An error where a limit of data.audit is passed.
absl::Status CheckAudit(const DataAudit& audit, const AuditSection& limits);

// The counts and the first sample, whole, as JSON.
absl::Status WriteAudit(const DataAudit& audit, const std::filesystem::path& path);

}  // namespace ftune
