// What became of the rows of a dataset, in numbers.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "data/audit/audit_counts.h"

namespace ftune {

struct DataReport {
  int64_t rows = 0;
  int64_t truncated_rows = 0;
  int64_t split_rows = 0;                  // by the length policy
  std::map<std::string, int64_t> dropped;  // how often by reason: what was left out
  int32_t max_id = -1;                     // the greatest token id of all samples; -1 where there is none
  AuditCounts audit;                       // merged over all rows

  // Adds what was counted over rows that come after these.
  void Merge(const DataReport& later);

  nlohmann::ordered_json ToJson() const;
  // ToJson's inverse; `file` is named in errors.
  static absl::StatusOr<DataReport> FromJson(const nlohmann::json& json, const std::string& file);

  bool operator==(const DataReport&) const = default;
};

}  // namespace ftune
