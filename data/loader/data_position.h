// Where in its data a run stands, independent of the number of ranks.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"

namespace ftune {

// Before the next global batch. All from 0.
struct DataPosition {
  int64_t step = 0;   // global batches that were taken
  int64_t epoch = 0;  // times through the data that are done
  int64_t row = 0;    // streaming: rows of this epoch that were read before the window of the next batch
  int64_t batch = 0;  // batches taken of this epoch; streaming: of this window

  bool operator==(const DataPosition&) const = default;
};

nlohmann::ordered_json ToJson(const DataPosition& position);
// An error where a number is missing or negative; it names `file`.
absl::StatusOr<DataPosition> ReadDataPosition(const nlohmann::ordered_json& json, const std::string& file);

}  // namespace ftune
