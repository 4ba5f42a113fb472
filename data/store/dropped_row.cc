#include "data/store/dropped_row.h"

#include "base/error.h"
#include "base/json_file.h"

namespace ftune {

nlohmann::ordered_json DroppedRow::ToJson() const {
  nlohmann::ordered_json json = {
      {"file", place.file}, {"line", place.line}, {"row", row}, {"reason", reason}, {"tokens", tokens}};
  if (!message.empty()) json["message"] = message;
  return json;
}

absl::StatusOr<DroppedRow> DroppedRow::FromJson(const nlohmann::json& json, const std::string& file) {
  DroppedRow dropped;
  FTUNE_ASSIGN_OR_RETURN(dropped.place.file, RequiredField<std::string>(json, "file", file));
  FTUNE_ASSIGN_OR_RETURN(dropped.place.line, RequiredField<int64_t>(json, "line", file));
  FTUNE_ASSIGN_OR_RETURN(dropped.row, RequiredField<int64_t>(json, "row", file));
  FTUNE_ASSIGN_OR_RETURN(dropped.reason, RequiredField<std::string>(json, "reason", file));
  FTUNE_ASSIGN_OR_RETURN(dropped.tokens, RequiredField<int64_t>(json, "tokens", file));
  FTUNE_ASSIGN_OR_RETURN(dropped.message, FieldOr<std::string>(json, "message", "", file));
  return dropped;
}

}  // namespace ftune
