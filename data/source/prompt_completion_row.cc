// Rows of a prompt and its completion: two texts, or two lists of messages.

#include "base/error.h"
#include "base/strings.h"
#include "data/source/row_shape.h"

namespace ftune {
namespace {

// As TRL has them: the completion's messages go on where the prompt's end, and they alone are learned.
absl::StatusOr<RowContent> ReadMessages(const RowFields& fields, const ChatRowOptions& options) {
  ChatRowBuilder builder(fields, options);
  for (const char* column : {"prompt", "completion"}) {
    FTUNE_ASSIGN_OR_RETURN(const OrderedJson messages, fields.List(column));
    const bool is_prompt = std::string_view(column) == "prompt";
    for (size_t i = 0; i < messages.size(); ++i) {
      FTUNE_RETURN_IF_ERROR(builder.Add(messages[i], StrCat(fields.NameOf(column), "[", i, "]"), is_prompt));
    }
  }
  return builder.Finish("completion");
}

}  // namespace

absl::StatusOr<RowContent> ReadPromptCompletion(const RowFields& fields, const RowReadOptions& options) {
  const auto is_list = [&](const char* column) {
    const OrderedJson* field = fields.Find(column);
    return field != nullptr && field->is_array();
  };
  if (is_list("prompt") && is_list("completion")) return ReadMessages(fields, options.chat);
  if (is_list("prompt") || is_list("completion")) {
    const char* list = is_list("prompt") ? "prompt" : "completion";
    const char* other = is_list("prompt") ? "completion" : "prompt";
    return fields.Error(list, {.found = StrCat("a list, but ", fields.NameOf(other), " is none"),
                               .expected = "two strings, or two lists of messages"});
  }
  PromptCompletion row;
  FTUNE_ASSIGN_OR_RETURN(row.prompt, fields.Text("prompt"));
  FTUNE_ASSIGN_OR_RETURN(row.completion, fields.Text("completion"));
  return row;
}

}  // namespace ftune
