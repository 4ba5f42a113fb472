// JSON files: reading with a place in every error, and fields with their types checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ftune {

struct JsonOptions {
  bool reject_duplicate_keys = false;  // otherwise the last one counts, as in Python
};

// `file` is only named in errors: "FILE:LINE: error: …". Nesting is limited, so hostile text cannot exhaust
// the stack.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, const std::string& file,
                                         const JsonOptions& options = {});
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::filesystem::path& path,
                                            const JsonOptions& options = {});

// A field of `object` as T: int64_t, double (integers too), bool or std::string. `key` may be a name only.
// The error names the file and the key, what is there and what was expected.
template <class T>
absl::StatusOr<T> RequiredField(const nlohmann::json& object, const std::string& key,
                                const std::string& file);
// The same, but an absent key or null gives `fallback`.
template <class T>
absl::StatusOr<T> FieldOr(const nlohmann::json& object, const std::string& key, T fallback,
                          const std::string& file);

// The value as an error message shows it: JSON text, shortened.
std::string Excerpt(const nlohmann::json& value);

}  // namespace ftune
