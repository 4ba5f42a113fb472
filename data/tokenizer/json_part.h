// A part of a JSON document that remembers where it stands, so that an error can say so.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ftune {

// Does not own the document.
class JsonPart {
 public:
  JsonPart(const nlohmann::json& value, std::string file, std::string place = "")
      : value_(&value), file_(std::move(file)), place_(std::move(place)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& file() const { return file_; }
  bool IsNull() const { return value_->is_null(); }
  std::string Key(const std::string& key) const { return place_.empty() ? key : place_ + "." + key; }

  // The member of that name; a part that is null if there is none.
  JsonPart Member(const std::string& key) const;
  absl::StatusOr<std::vector<JsonPart>> Elements() const;

  // The values of members. Without a fallback the member must be there; null counts as absent.
  absl::StatusOr<bool> Bool(const std::string& key, std::optional<bool> fallback = std::nullopt) const;
  absl::StatusOr<int64_t> Int(const std::string& key, std::optional<int64_t> fallback = std::nullopt) const;
  absl::StatusOr<std::string> String(const std::string& key,
                                     std::optional<std::string> fallback = std::nullopt) const;
  // A string of one character.
  absl::StatusOr<char32_t> Char(const std::string& key) const;

  // The member "type"; in old files, which lack it, the type of the first rule whose member is there.
  struct TypeRule {
    const char* member;
    const char* type;
  };
  absl::StatusOr<std::string> Type(std::initializer_list<TypeRule> untyped) const;

  // An error at this part: what was found there (the part itself if empty), and what was expected.
  absl::Status Wrong(std::string expected, std::string message = "", std::string found = "") const;

 private:
  const nlohmann::json* value_;
  std::string file_, place_;
};

}  // namespace ftune
