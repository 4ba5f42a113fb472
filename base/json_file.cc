#include "base/json_file.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 256;

// nlohmann's messages begin with "[json.exception.parse_error.101] parse error at line 1, column 2: ".
// A parser's words end with what it read last, which may be very long, and of any bytes.
std::string Shortened(std::string_view text) {
  constexpr size_t kMost = 200;
  const bool cut = text.size() > kMost;
  text = text.substr(0, kMost);
  // Not within a character.
  while (cut && !text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0) text.remove_suffix(1);
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      StrAppend(shown, absl::StrFormat("\\x%02x", byte));
    } else {
      shown += c;
    }
  }
  return cut ? shown + "…" : shown;
}

std::string WithoutPrefix(std::string_view what) {
  const size_t end = what.find(": ");
  return Shortened(end == std::string_view::npos ? what : what.substr(end + 2));
}

// Watches a parse for what nlohmann accepts but we do not.
class Guard {
 public:
  explicit Guard(const JsonOptions& options) : options_(options) {}

  bool operator()(int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth) too_deep_ = true;
    if (too_deep_) return false;
    if (!options_.reject_duplicate_keys) return true;
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second && duplicate_.empty()) duplicate_ = key;
    }
    return true;
  }

  absl::Status Result(const std::string& file) const {
    if (too_deep_) {
      return DataError({.file = file,
                        .message = "JSON is nested too deeply",
                        .expected = StrCat("at most ", kMaxDepth, " levels")});
    }
    if (!duplicate_.empty()) {
      return DataError(
          {.file = file, .key = duplicate_, .message = "the key stands twice in one JSON object"});
    }
    return absl::OkStatus();
  }

 private:
  JsonOptions options_;
  bool too_deep_ = false;
  std::string duplicate_;
  std::vector<std::set<std::string>> keys_;
};

template <class T>
struct FieldType;
template <>
struct FieldType<int64_t> {
  static constexpr char kName[] = "an integer";
  static bool Matches(const json& value) {
    return value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() <= INT64_MAX);
  }
};
template <>
struct FieldType<double> {
  static constexpr char kName[] = "a number";
  static bool Matches(const json& value) { return value.is_number(); }
};
template <>
struct FieldType<bool> {
  static constexpr char kName[] = "true or false";
  static bool Matches(const json& value) { return value.is_boolean(); }
};
template <>
struct FieldType<std::string> {
  static constexpr char kName[] = "a string";
  static bool Matches(const json& value) { return value.is_string(); }
};

}  // namespace

absl::StatusOr<json> ParseJson(std::string_view text, const std::string& file, const JsonOptions& options) {
  Guard guard(options);
  json value;
  try {
    value = json::parse(text, std::ref(guard));
  } catch (const json::parse_error& error) {
    const size_t end = std::min<size_t>(error.byte == 0 ? 0 : error.byte - 1, text.size());
    const int line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + end, '\n'));
    return DataError(
        {.file = file, .line = line, .message = StrCat("not valid JSON: ", WithoutPrefix(error.what()))});
  } catch (const json::exception& error) {  // a number out of range
    return DataError({.file = file, .message = StrCat("not valid JSON: ", WithoutPrefix(error.what()))});
  }
  FTUNE_RETURN_IF_ERROR(guard.Result(file));
  return value;
}

absl::StatusOr<json> ReadJsonFile(const std::filesystem::path& path, const JsonOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseJson(file.text(), path.string(), options);
}

template <class T>
absl::StatusOr<T> RequiredField(const json& object, const std::string& key, const std::string& file) {
  const auto field = object.is_object() ? object.find(key) : object.end();
  if (field == object.end()) {
    return DataError(
        {.file = file, .key = key, .message = "the key is missing", .expected = FieldType<T>::kName});
  }
  if (!FieldType<T>::Matches(*field)) {
    return DataError({.file = file, .key = key, .found = Excerpt(*field), .expected = FieldType<T>::kName});
  }
  return field->template get<T>();
}

template <class T>
absl::StatusOr<T> FieldOr(const json& object, const std::string& key, T fallback, const std::string& file) {
  const auto field = object.is_object() ? object.find(key) : object.end();
  if (field == object.end() || field->is_null()) return fallback;
  return RequiredField<T>(object, key, file);
}

template absl::StatusOr<int64_t> RequiredField(const json&, const std::string&, const std::string&);
template absl::StatusOr<double> RequiredField(const json&, const std::string&, const std::string&);
template absl::StatusOr<bool> RequiredField(const json&, const std::string&, const std::string&);
template absl::StatusOr<std::string> RequiredField(const json&, const std::string&, const std::string&);
template absl::StatusOr<int64_t> FieldOr(const json&, const std::string&, int64_t, const std::string&);
template absl::StatusOr<double> FieldOr(const json&, const std::string&, double, const std::string&);
template absl::StatusOr<bool> FieldOr(const json&, const std::string&, bool, const std::string&);
template absl::StatusOr<std::string> FieldOr(const json&, const std::string&, std::string,
                                             const std::string&);

std::string Excerpt(const json& value) {
  constexpr size_t kMaxChars = 80;
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() <= kMaxChars) return text;
  size_t end = kMaxChars;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "…";
}

}  // namespace ftune
