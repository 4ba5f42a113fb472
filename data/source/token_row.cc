// Rows that are tokenised already: input_ids, and labels where not all of them are learned.

#include <algorithm>

#include "base/error.h"
#include "base/strings.h"
#include "data/loader/batch.h"
#include "data/source/row_shape.h"

namespace ftune {
namespace {

// A list of integers in [low, high).
absl::StatusOr<std::vector<int32_t>> Integers(const RowFields& fields, const char* column, int64_t low,
                                              int64_t high) {
  FTUNE_ASSIGN_OR_RETURN(const OrderedJson list, fields.List(column));
  std::vector<int32_t> values;
  values.reserve(list.size());
  for (const OrderedJson& item : list) {
    const bool fits = item.is_number_integer() && item >= low && item < high;
    if (!fits) {
      return fields.Error(column, {.key = StrCat("[", values.size(), "]"),
                                   .found = DescribeValue(item),
                                   .expected = StrCat("an integer from ", low, " to ", high - 1),
                                   .hint = "use ids of this model's tokenizer"});
    }
    values.push_back(item.get<int32_t>());
  }
  return values;
}

absl::Status CheckCount(const RowFields& fields, const char* column, size_t count, size_t expected) {
  if (count == expected) return absl::OkStatus();
  return fields.Error(column, {.found = StrCat(count, " values"),
                               .expected = StrCat(expected, ", as many as ", fields.NameOf("input_ids"))});
}

// Padding has no place in a row: packs have their own.
absl::Status CheckAttention(const RowFields& fields, size_t count) {
  if (fields.Find("attention_mask") == nullptr) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(const OrderedJson mask, fields.List("attention_mask"));
  FTUNE_RETURN_IF_ERROR(CheckCount(fields, "attention_mask", mask.size(), count));
  const auto other =
      std::find_if(mask.begin(), mask.end(), [](const OrderedJson& flag) { return flag != 1; });
  if (other == mask.end()) return absl::OkStatus();
  return fields.Error("attention_mask", {.key = StrCat("[", other - mask.begin(), "]"),
                                         .found = DescribeValue(*other),
                                         .expected = "1 everywhere",
                                         .hint = "take the padding out of the rows"});
}

}  // namespace

absl::StatusOr<RowContent> ReadTokens(const RowFields& fields, const RowReadOptions& options) {
  TokenRow row;
  FTUNE_ASSIGN_OR_RETURN(row.ids, Integers(fields, "input_ids", 0, options.vocab_size));
  row.trained.assign(row.ids.size(), 1);
  FTUNE_RETURN_IF_ERROR(CheckAttention(fields, row.ids.size()));
  if (fields.Find("labels") == nullptr) return row;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<int32_t> labels,
                         Integers(fields, "labels", kIgnoreLabel, options.vocab_size));
  FTUNE_RETURN_IF_ERROR(CheckCount(fields, "labels", labels.size(), row.ids.size()));
  for (size_t i = 0; i < labels.size(); ++i) {
    row.trained[i] = labels[i] != kIgnoreLabel;
    if (!row.trained[i] || labels[i] == row.ids[i]) continue;
    return fields.Error(
        "labels", {.key = StrCat("[", i, "]"),
                   .found = StrCat(labels[i]),
                   .expected = StrCat(row.ids[i], " (the same position of input_ids) or ", kIgnoreLabel),
                   .hint = "labels are not shifted"});
  }
  return row;
}

}  // namespace ftune
