// One message of a conversation, in OpenAI's or ShareGPT's form, brought into the form that chat templates
// are written for.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "data/source/row_fields.h"

namespace ftune {

struct ReadMessage {
  // role and content (text; parts joined, null as ""), tool_calls with objects as arguments, and what else
  // the message has. Keys with null and the flags weight and train are gone.
  OrderedJson message;
  std::optional<bool> flag;  // what weight or train says; no where both are there and one says no

  const std::string& role() const { return message.at("role").get_ref<const std::string&>(); }
};

// `key` is the message's place in the row, as errors name it. The role stands under role or from, the content
// under content or value, where the mapping does not name others.
absl::StatusOr<ReadMessage> ReadMessageOf(const OrderedJson& message, const std::string& key,
                                          const RowPlace& place, const RowMapping& mapping);

}  // namespace ftune
