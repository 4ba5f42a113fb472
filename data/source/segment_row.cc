// Rows of segments, Axolotl's input_output: a text in pieces, each with a label that says whether it is
// learned. No template, no special tokens but those that the texts have.

#include "base/error.h"
#include "base/strings.h"
#include "data/source/row_shape.h"

namespace ftune {

absl::StatusOr<RowContent> ReadSegments(const RowFields& fields, const RowReadOptions&) {
  FTUNE_ASSIGN_OR_RETURN(const OrderedJson list, fields.List("segments"));
  SegmentRow row;
  for (size_t i = 0; i < list.size(); ++i) {
    const OrderedJson& segment = list[i];
    const auto text = segment.find("text");
    const auto label = segment.find("label");
    const std::string key = StrCat("[", i, "]");
    if (text == segment.end() || label == segment.end()) {
      return fields.Error("segments",
                          {.key = key, .found = DescribeKeys(segment), .expected = "text and label"});
    }
    if (!text->is_string()) {
      return fields.Error("segments",
                          {.key = key + ".text", .found = DescribeValue(*text), .expected = "a string"});
    }
    const bool yes = *label == true || *label == 1;
    if (!yes && *label != false && *label != 0) {
      return fields.Error(
          "segments",
          {.key = key + ".label", .found = DescribeValue(*label), .expected = "true (learn it) or false"});
    }
    FTUNE_RETURN_IF_ERROR(CheckNoNulInField(text->get_ref<const std::string&>(),
                                            StrCat(fields.NameOf("segments"), key, ".text"), fields.place()));
    row.segments.push_back({text->get<std::string>(), yes});
  }
  return row;
}

}  // namespace ftune
