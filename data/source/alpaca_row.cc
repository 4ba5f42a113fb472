// Alpaca's rows: instruction, input and output, with LLaMA-Factory's system and history.

#include "base/error.h"
#include "base/strings.h"
#include "data/source/row_roles.h"
#include "data/source/row_shape.h"

namespace ftune {
namespace {

struct AlpacaRow {
  std::string system, instruction, input, output;
  std::vector<std::pair<std::string, std::string>> history;  // questions and answers
};

absl::StatusOr<AlpacaRow> Read(const RowFields& fields) {
  AlpacaRow row;
  FTUNE_ASSIGN_OR_RETURN(row.system, fields.TextOr("system"));
  FTUNE_ASSIGN_OR_RETURN(row.instruction, fields.Text("instruction"));
  FTUNE_ASSIGN_OR_RETURN(row.input, fields.TextOr("input"));
  FTUNE_ASSIGN_OR_RETURN(row.output, fields.Text("output"));
  if (fields.Find("history") == nullptr) return row;
  FTUNE_ASSIGN_OR_RETURN(const OrderedJson history, fields.List("history"));
  for (size_t i = 0; i < history.size(); ++i) {
    const OrderedJson& turn = history[i];
    if (!turn.is_array() || turn.size() != 2 || !turn[0].is_string() || !turn[1].is_string()) {
      return fields.Error("history", {.key = StrCat("[", i, "]"),
                                      .found = DescribeValue(turn),
                                      .expected = "[question, answer], two strings"});
    }
    row.history.emplace_back(turn[0].get<std::string>(), turn[1].get<std::string>());
    for (const OrderedJson& text : turn) {
      FTUNE_RETURN_IF_ERROR(CheckNoNulInField(text.get_ref<const std::string&>(),
                                              StrCat(fields.NameOf("history"), "[", i, "]"), fields.place()));
    }
  }
  return row;
}

// The prompt that the models of Stanford Alpaca were trained with (tatsu-lab/stanford_alpaca, train.py),
// with a line's end behind the last heading, as in the dataset's own column `text`.
std::string ClassicPrompt(const AlpacaRow& row) {
  std::string text = row.system;
  if (text.empty()) {
    text = row.input.empty()
               ? "Below is an instruction that describes a task. Write a response that appropriately "
                 "completes the request."
               : "Below is an instruction that describes a task, paired with an input that provides further "
                 "context. Write a response that appropriately completes the request.";
  }
  for (const auto& [question, answer] : row.history) {
    StrAppend(text, "\n\n### Instruction:\n", question, "\n\n### Response:\n", answer);
  }
  StrAppend(text, "\n\n### Instruction:\n", row.instruction);
  if (!row.input.empty()) StrAppend(text, "\n\n### Input:\n", row.input);
  StrAppend(text, "\n\n### Response:\n");
  return text;
}

}  // namespace

absl::StatusOr<RowContent> ReadAlpaca(const RowFields& fields, const RowReadOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(AlpacaRow row, Read(fields));
  if (!options.has_chat_template) return PromptCompletion{ClassicPrompt(row), std::move(row.output)};
  ChatRowBuilder builder(fields, options.chat);  // which adds the system prompt
  for (const auto& [question, answer] : row.history) {
    builder.Say(kUserRole, question);
    builder.Say(kAssistantRole, answer);
  }
  builder.Say(kUserRole, row.input.empty() ? row.instruction : StrCat(row.instruction, "\n", row.input));
  builder.Say(kAssistantRole, row.output);
  return builder.Finish("instruction");
}

}  // namespace ftune
