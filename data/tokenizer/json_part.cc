#include "data/tokenizer/json_part.h"

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "data/tokenizer/utf8.h"

namespace ftune {

namespace {
const nlohmann::json kNull;
}  // namespace

JsonPart JsonPart::Member(const std::string& key) const {
  const auto member = value_->is_object() ? value_->find(key) : value_->end();
  return {member == value_->end() ? kNull : *member, file_, Key(key)};
}

absl::StatusOr<std::vector<JsonPart>> JsonPart::Elements() const {
  if (!value_->is_array()) return Wrong("a list");
  std::vector<JsonPart> elements;
  for (size_t i = 0; i < value_->size(); ++i) {
    elements.emplace_back((*value_)[i], file_, StrCat(place_, "[", i, "]"));
  }
  return elements;
}

absl::StatusOr<bool> JsonPart::Bool(const std::string& key, std::optional<bool> fallback) const {
  const JsonPart member = Member(key);
  if (member.IsNull() && fallback) return *fallback;
  if (!member.value().is_boolean()) return member.Wrong("true or false");
  return member.value().get<bool>();
}

absl::StatusOr<int64_t> JsonPart::Int(const std::string& key, std::optional<int64_t> fallback) const {
  const JsonPart member = Member(key);
  if (member.IsNull() && fallback) return *fallback;
  const bool fits = member.value().is_number_integer() &&
                    (!member.value().is_number_unsigned() || member.value().get<uint64_t>() <= INT64_MAX);
  if (!fits) return member.Wrong("an integer");
  return member.value().get<int64_t>();
}

absl::StatusOr<std::string> JsonPart::String(const std::string& key,
                                             std::optional<std::string> fallback) const {
  const JsonPart member = Member(key);
  if (member.IsNull() && fallback) return *fallback;
  if (!member.value().is_string()) return member.Wrong("a string");
  return member.value().get<std::string>();
}

absl::StatusOr<char32_t> JsonPart::Char(const std::string& key) const {
  FTUNE_ASSIGN_OR_RETURN(const std::string text, String(key));
  if (text.empty() || Utf8Length(text[0]) != text.size()) return Member(key).Wrong("one character");
  size_t position = 0;
  return NextChar(text, &position);
}

absl::StatusOr<std::string> JsonPart::Type(std::initializer_list<TypeRule> untyped) const {
  if (Member("type").IsNull()) {
    for (const TypeRule& rule : untyped) {
      if (!Member(rule.member).IsNull()) return std::string(rule.type);
    }
  }
  return String("type");
}

absl::Status JsonPart::Wrong(std::string expected, std::string message, std::string found) const {
  if (found.empty()) found = IsNull() ? "nothing" : Excerpt(*value_);
  return DataError({.file = file_,
                    .key = place_,
                    .message = std::move(message),
                    .found = std::move(found),
                    .expected = std::move(expected)});
}

}  // namespace ftune
