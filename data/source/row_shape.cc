#include "data/source/row_shape.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

absl::StatusOr<RowContent> ReadMessages(const RowFields& fields, const RowReadOptions& options) {
  return ReadChatRow(fields, options.chat);
}

absl::StatusOr<RowContent> ReadText(const RowFields& fields, const RowReadOptions&) {
  Document document;
  FTUNE_ASSIGN_OR_RETURN(document.text, fields.Text("text"));
  return document;
}

struct RowShape {
  RowFormat format;
  const char* name;
  std::array<const char*, 2> columns;  // that show it, all of them; the second may be null
  absl::StatusOr<RowContent> (*read)(const RowFields&, const RowReadOptions&);
};
// The more telling first: a row with both messages and text is a conversation.
constexpr RowShape kShapes[] = {
    {RowFormat::kMessages, "messages", {"messages", nullptr}, ReadMessages},
    {RowFormat::kShareGpt, "sharegpt", {"conversations", nullptr}, ReadMessages},
    {RowFormat::kTokens, "tokens", {"input_ids", nullptr}, ReadTokens},
    {RowFormat::kSegments, "segments", {"segments", nullptr}, ReadSegments},
    {RowFormat::kPromptCompletion, "prompt_completion", {"prompt", "completion"}, ReadPromptCompletion},
    {RowFormat::kAlpaca, "alpaca", {"instruction", "output"}, ReadAlpaca},
    {RowFormat::kText, "text", {"text", nullptr}, ReadText},
};
constexpr char kKnown[] =
    "messages, conversations, prompt and completion, instruction and output, text, input_ids or segments";

const RowShape* FindShape(RowFormat format) {
  const auto shape = std::find_if(std::begin(kShapes), std::end(kShapes),
                                  [&](const RowShape& s) { return s.format == format; });
  return shape == std::end(kShapes) ? nullptr : &*shape;
}

// Names of columns that are a question and its answer, in datasets that are none of the shapes.
constexpr std::array<const char*, 2> kPairs[] = {
    {"question", "answer"},      {"question", "response"},  {"query", "response"},  {"query", "answer"},
    {"instruction", "response"}, {"instruction", "answer"}, {"prompt", "response"}, {"prompt", "answer"},
    {"problem", "solution"},     {"input", "output"},       {"context", "response"}};

std::string MappingHint(const OrderedJson& row) {
  for (const auto& [question, answer] : kPairs) {
    if (!row.contains(question) || !row.contains(answer)) continue;
    return StrCat("name the columns in the dataset's entry: columns: {instruction: ", question,
                  ", output: ", answer, "}");
  }
  return "name the columns in the dataset's entry: columns: {messages: …} or {instruction: …, output: …}";
}

// Data that is made for something else than this.
absl::Status RefuseForeignRow(const OrderedJson& row, const RowPlace& place) {
  const auto has = [&](const char* key) { return row.contains(key); };
  const bool chosen = has("chosen") && has("rejected");
  if (chosen || (has("response_j") && has("response_k"))) {
    return RowError(place,
                    {.message = "these rows are preference data, for DPO and its like, which ftune does "
                                "not do",
                     .found = DescribeKeys(row),
                     .expected = kKnown,
                     .hint = StrCat("to learn the better answers alone, name them: columns: ",
                                    chosen ? "{messages: chosen} where they are conversations, or "
                                             "{prompt: …, completion: chosen}"
                                           : "{instruction: question, output: response_j}")});
  }
  const auto prompt = row.find("prompt");
  const bool has_replies = prompt != row.end() && prompt->is_object() && prompt->contains("replies");
  if (has_replies || has("replies") || has("message_tree_id")) {
    return RowError(place, {.message = "these rows are trees of messages, as Open Assistant exports them",
                            .found = DescribeKeys(row),
                            .expected = kKnown,
                            .hint = "write out the paths to be learned as rows of messages"});
  }
  return absl::OkStatus();
}

// A mapping that means nothing would be silence about a slip of the pen.
absl::Status CheckColumns(const OrderedJson& row, const RowMapping& mapping, const RowPlace& place) {
  constexpr std::array<const char*, 5> kOfMessages = {"role", "content", "tool_calls", "weight", "train"};
  for (const auto& [ours, theirs] : mapping.columns) {
    const bool of_messages = std::find(kOfMessages.begin(), kOfMessages.end(), ours) != kOfMessages.end();
    if (of_messages || row.contains(theirs)) continue;
    return RowError(place, {.key = StrCat("columns.", ours),
                            .message = StrCat("the first row has no ", theirs),
                            .found = DescribeKeys(row)});
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view RowFormatName(RowFormat format) {
  const RowShape* shape = FindShape(format);
  return shape == nullptr ? "auto" : shape->name;
}

absl::StatusOr<RowContent> ReadRow(const RowFields& fields, RowFormat format, const RowReadOptions& options) {
  return FindShape(format)->read(fields, options);
}

absl::StatusOr<RowFormat> ChooseRowFormat(const OrderedJson& first_row, RowFormat named,
                                          const RowMapping& mapping, const RowPlace& place) {
  FTUNE_RETURN_IF_ERROR(CheckColumns(first_row, mapping, place));
  if (named != RowFormat::kAuto) return named;
  const RowFields fields(first_row, place, mapping);
  const auto shows = [&](const RowShape& shape, bool mapped) {
    bool any_mapped = false;
    for (const char* column : shape.columns) {
      if (column == nullptr) continue;
      if (!first_row.contains(fields.NameOf(column))) return false;
      any_mapped = any_mapped || mapping.columns.contains(column);
    }
    return any_mapped == mapped;
  };
  // What the recipe names is meant, whatever else the row has.
  for (const RowShape& shape : kShapes) {
    if (shows(shape, /*mapped=*/true)) return shape.format;
  }
  FTUNE_RETURN_IF_ERROR(RefuseForeignRow(first_row, place));
  for (const RowShape& shape : kShapes) {
    if (shows(shape, /*mapped=*/false)) return shape.format;
  }
  return RowError(place, {.message = "the keys of this row show no known format",
                          .found = DescribeKeys(first_row),
                          .expected = kKnown,
                          .hint = MappingHint(first_row)});
}

}  // namespace ftune
