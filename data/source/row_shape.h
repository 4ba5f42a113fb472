// The shapes that rows of datasets have: told by their keys, read into what a sample is made of. A shape is a
// line of the table in row_shape.cc and a function that reads it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "data/source/chat_row.h"
#include "data/source/row.h"
#include "data/source/row_fields.h"

namespace ftune {

// The format as recipes name it.
std::string_view RowFormatName(RowFormat format);

struct PromptCompletion {
  std::string prompt;  // as it stands before the completion, without anything between
  std::string completion;
};
struct Document {
  std::string text;
};
// Token ids, each trained or not; nothing is added to them.
struct TokenRow {
  std::vector<int32_t> ids;
  std::vector<uint8_t> trained;
};
// Pieces of one text, each trained or not; nothing is added to it.
struct SegmentRow {
  struct Segment {
    std::string text;
    bool trained = false;
  };
  std::vector<Segment> segments;
};
using RowContent = std::variant<ChatRow, PromptCompletion, Document, TokenRow, SegmentRow>;

struct RowReadOptions {
  ChatRowOptions chat;
  bool has_chat_template = true;  // without one, Alpaca's rows are read as prompt and completion
  int64_t vocab_size = 0;         // ids are below it
};

// The row's content; `format` is not kAuto. Errors have the row's place.
absl::StatusOr<RowContent> ReadRow(const RowFields& fields, RowFormat format, const RowReadOptions& options);

// How an entry's rows are read: `named`, or where it is kAuto what the keys of its first row show. An error
// where they show none, or preference data or a tree of messages, of which it says so; and where a mapped
// column is not in the row.
absl::StatusOr<RowFormat> ChooseRowFormat(const OrderedJson& first_row, RowFormat named,
                                          const RowMapping& mapping, const RowPlace& place);

// The readers of the table's rows.
absl::StatusOr<RowContent> ReadAlpaca(const RowFields& fields, const RowReadOptions& options);
absl::StatusOr<RowContent> ReadPromptCompletion(const RowFields& fields, const RowReadOptions& options);
absl::StatusOr<RowContent> ReadTokens(const RowFields& fields, const RowReadOptions& options);
absl::StatusOr<RowContent> ReadSegments(const RowFields& fields, const RowReadOptions& options);

}  // namespace ftune
