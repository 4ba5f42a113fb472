// What `ftune doctor` finds out about a host.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace ftune {

struct Check {
  std::string name;
  bool ok = true;  // false: training will not work here, or not as it should
  std::string detail;
};
using Checks = std::vector<Check>;

inline bool AllOk(const Checks& checks) {
  for (const Check& check : checks) {
    if (!check.ok) return false;
  }
  return true;
}

// What is wrong, as part of a detail: without "error:" and the key, which a check's name stands for.
std::string InWords(const absl::Status& status);

// As JSON, of either kind of the library.
template <class Json>
void to_json(Json& json, const Check& check) {
  json = Json{{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}};
}
template <class Json>
void from_json(const Json& json, Check& check) {
  check = {.name = json.at("name"), .ok = json.at("ok"), .detail = json.at("detail")};
}

}  // namespace ftune
