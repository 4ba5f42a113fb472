// Rows of which something is not trained on: left out, or cut.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/source/row.h"

namespace ftune {

// Reasons that are not those of DropReason (sample_builder.h).
inline constexpr char kBadRow[] = "bad_row";       // could not be read; `message` says why
inline constexpr char kSplit[] = "split";          // not left out: it is cut into several samples
inline constexpr char kTruncated[] = "truncated";  // not left out: its end or begin is cut off

struct DroppedRow {
  RowPlace place;
  int64_t row = 0;  // counted from 0 over the rows of all entries
  std::string reason;
  int64_t tokens = 0;   // before it was dropped or cut; 0 of a bad row
  std::string message;  // of a bad row

  // {file, line, row, reason, tokens}, and the message where there is one.
  nlohmann::ordered_json ToJson() const;
  // ToJson's inverse; `file` is named in errors.
  static absl::StatusOr<DroppedRow> FromJson(const nlohmann::json& json, const std::string& file);
};

// Stops at the first error, which becomes that of the visit.
using DroppedVisitor = std::function<absl::Status(const DroppedRow&)>;

}  // namespace ftune
