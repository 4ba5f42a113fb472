#include "data/store/data_report.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

absl::StatusOr<const nlohmann::json*> Object(const nlohmann::json& json, const std::string& key,
                                             const std::string& file) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) {
    return DataError({.file = file, .key = key, .message = "is missing", .expected = "an object"});
  }
  return &*found;
}

}  // namespace

void DataReport::Merge(const DataReport& later) {
  rows += later.rows;
  truncated_rows += later.truncated_rows;
  split_rows += later.split_rows;
  for (const auto& [reason, count] : later.dropped) dropped[reason] += count;
  max_id = std::max(max_id, later.max_id);
  audit.Merge(later.audit);
}

nlohmann::ordered_json DataReport::ToJson() const {
  return {{"rows", rows},
          {"truncated_rows", truncated_rows},
          {"split_rows", split_rows},
          {"dropped", nlohmann::ordered_json(dropped)},
          {"max_id", max_id},
          {"audit", audit.ToJson()}};
}

absl::StatusOr<DataReport> DataReport::FromJson(const nlohmann::json& json, const std::string& file) {
  DataReport report;
  FTUNE_ASSIGN_OR_RETURN(report.rows, RequiredField<int64_t>(json, "rows", file));
  FTUNE_ASSIGN_OR_RETURN(report.truncated_rows, RequiredField<int64_t>(json, "truncated_rows", file));
  FTUNE_ASSIGN_OR_RETURN(report.split_rows, RequiredField<int64_t>(json, "split_rows", file));
  FTUNE_ASSIGN_OR_RETURN(const int64_t max_id, RequiredField<int64_t>(json, "max_id", file));
  report.max_id = static_cast<int32_t>(max_id);
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json* dropped, Object(json, "dropped", file));
  for (const auto& [reason, value] : dropped->items()) {
    FTUNE_ASSIGN_OR_RETURN(report.dropped[reason], RequiredField<int64_t>(*dropped, reason, file));
  }
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json* audit, Object(json, "audit", file));
  FTUNE_ASSIGN_OR_RETURN(report.audit, AuditCounts::FromJson(*audit, file));
  return report;
}

}  // namespace ftune
