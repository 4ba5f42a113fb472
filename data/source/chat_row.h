// Conversations in OpenAI's form, checked and brought into the form that chat templates are written for.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "data/source/row.h"

namespace ftune {

enum class TrainTurns { kAll, kLast };

struct ChatRow {
  // Contents are text (parts joined, null as ""), arguments of tool calls are objects, as templates expect
  // them; keys with null and the flags `weight` and `train` are gone. `tools` and `chat_template_kwargs` of
  // the row are in it.
  ChatInput input;
  // As many as messages: 1 for those assistant messages that are learned from.
  std::vector<uint8_t> trained;
  bool has_untrained_flag = false;  // an assistant message says weight 0 or train false
};

// The row must have `messages` with a role each and at least one of the assistant. An assistant message takes
// part unless its `weight` (0 or 1) or `train` (true or false, 0 or 1) says no; TrainTurns::kLast leaves the
// last only.
absl::StatusOr<ChatRow> ReadChatRow(const OrderedJson& row, const RowPlace& place, TrainTurns turns);

}  // namespace ftune
