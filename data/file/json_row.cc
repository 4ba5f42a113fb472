#include "data/file/json_row.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "data/file/text_place.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

constexpr char kExpected[] = "a JSON object";
constexpr size_t kMaxDepth = 256;

// What nlohmann says is wrong: "syntax error while parsing value - unexpected '}'; expected …" out of
// "[json.exception.parse_error.101] parse error at line 1, column 2: …". It may quote all of a long string.
std::string Shortened(std::string_view what) {
  constexpr size_t kMaxBytes = 200;
  const size_t prefix = what.find(": ");
  if (prefix != std::string_view::npos) what = what.substr(prefix + 2);
  if (what.size() <= kMaxBytes) return LossyUtf8(what);
  const size_t half = PreviousBoundary(what, kMaxBytes / 2);
  return StrCat(LossyUtf8(what.substr(0, half)), "…",
                LossyUtf8(what.substr(PreviousBoundary(what, what.size() - kMaxBytes / 2))));
}

// Builds the value as nlohmann's own parser would, but refuses keys that stand twice and deep nesting, and
// takes linear time for objects of many keys (OrderedJson looks through all of them for each that is added).
class Builder : public OrderedJson::json_sax_t {
 public:
  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(int64_t value) override { return Add(value); }
  bool number_unsigned(uint64_t value) override { return Add(value); }
  bool number_float(double value, const std::string&) override { return Add(value); }
  bool string(std::string& value) override { return Add(std::move(value)); }
  bool binary(OrderedJson::binary_t&) override { return false; }  // not in JSON text
  bool start_object(size_t) override { return Open(OrderedJson::object()); }
  bool start_array(size_t) override { return Open(OrderedJson::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& key) override {
    Level& level = open_.back();
    auto& members = level.value->get_ref<OrderedJson::object_t&>();
    if (HasKey(level, members, key)) {
      duplicate_ = key;
      return false;
    }
    members.emplace_back(std::move(key), nullptr);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    error_at_ = position;
    error_ = Shortened(error.what());
    return false;
  }

  OrderedJson& root() { return root_; }
  bool too_deep() const { return too_deep_; }
  const std::string& duplicate() const { return duplicate_; }
  size_t error_at() const { return error_at_; }  // 1-based
  const std::string& error() const { return error_; }

 private:
  static constexpr size_t kFewKeys = 16;

  struct Level {
    OrderedJson* value;
    std::unordered_set<std::string> keys;  // of an object with more than a few
  };

  static bool HasKey(Level& level, const OrderedJson::object_t& members, const std::string& key) {
    if (members.size() < kFewKeys) {
      return std::any_of(members.begin(), members.end(),
                         [&](const auto& member) { return member.first == key; });
    }
    if (level.keys.empty()) {
      for (const auto& member : members) level.keys.insert(member.first);
    }
    return !level.keys.insert(key).second;
  }

  // The value's place in what encloses it. A container's address holds while it is the last that was added.
  template <class Value>
  OrderedJson* Place(Value&& value) {
    if (open_.empty()) {
      root_ = std::forward<Value>(value);
      return &root_;
    }
    OrderedJson& parent = *open_.back().value;
    if (parent.is_array()) {
      parent.push_back(std::forward<Value>(value));
      return &parent.back();
    }
    OrderedJson& member = parent.get_ref<OrderedJson::object_t&>().back().second;
    member = std::forward<Value>(value);
    return &member;
  }

  template <class Value>
  bool Add(Value&& value) {
    Place(OrderedJson(std::forward<Value>(value)));
    return true;
  }
  bool Open(OrderedJson container) {
    too_deep_ = open_.size() >= kMaxDepth;
    if (too_deep_) return false;
    // Growing copies the members, since their keys are const: deeply.
    if (container.is_object()) container.get_ref<OrderedJson::object_t&>().reserve(open_.empty() ? 16 : 4);
    open_.push_back({Place(std::move(container)), {}});
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  OrderedJson root_;
  std::vector<Level> open_;
  bool too_deep_ = false;
  std::string duplicate_;
  size_t error_at_ = 0;
  std::string error_;
};

}  // namespace

absl::StatusOr<OrderedJson> ParseJsonRow(std::string_view text, const RowPlace& place, int64_t column) {
  FTUNE_RETURN_IF_ERROR(CheckUtf8(text, place, column));
  Builder builder;
  if (!OrderedJson::sax_parse(text, &builder)) {
    if (!builder.duplicate().empty() || builder.error().empty()) {
      if (builder.too_deep()) {
        return RowError(place, {.message = "JSON is nested too deeply",
                                .expected = StrCat("at most ", kMaxDepth, " levels")});
      }
      return RowError(place,
                      {.key = builder.duplicate(), .message = "the key stands twice in one JSON object"});
    }
    const size_t at = std::min(builder.error_at() == 0 ? 0 : builder.error_at() - 1, text.size());
    const TextPlace spot = PlaceInText(text, at, place, column);
    return RowError(spot.place,
                    {.message = StrCat("not valid JSON at column ", spot.column, ": ", builder.error())});
  }
  OrderedJson& row = builder.root();
  if (!row.is_object()) return RowError(place, {.found = DescribeValue(row), .expected = kExpected});
  return std::move(row);
}

}  // namespace ftune
