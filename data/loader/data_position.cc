#include "data/loader/data_position.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

nlohmann::ordered_json ToJson(const DataPosition& position) {
  return {
      {"step", position.step}, {"epoch", position.epoch}, {"row", position.row}, {"batch", position.batch}};
}

absl::StatusOr<DataPosition> ReadDataPosition(const nlohmann::ordered_json& json, const std::string& file) {
  DataPosition position;
  const auto read = [&](const char* key, int64_t& number) -> absl::Status {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (found != json.end() && found->is_number_integer()) {
      number = found->get<int64_t>();  // negative where an unsigned one is too large for it
      if (number >= 0) return absl::OkStatus();
    }
    return DataError({.file = file,
                      .key = StrCat("position.", key),
                      .found = found == json.end() ? "nothing" : found->dump(),
                      .expected = "a whole number, 0 or more"});
  };
  FTUNE_RETURN_IF_ERROR(read("step", position.step));
  FTUNE_RETURN_IF_ERROR(read("epoch", position.epoch));
  FTUNE_RETURN_IF_ERROR(read("row", position.row));
  FTUNE_RETURN_IF_ERROR(read("batch", position.batch));
  return position;
}

}  // namespace ftune
