// From a conversation to samples: its text by the chat template, the tokens of it, and which are learned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/sample.h"
#include "data/source/chat_row.h"
#include "data/source/row.h"
#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

// How many tokens of a sample stand in the turns of a role, and how many of them are learned. The role "" has
// what the template writes outside of any turn. A sample's first token, which is never predicted, counts as
// not trained.
struct RoleTokens {
  std::string role;
  int64_t tokens = 0;
  int64_t trained = 0;
};

// Adds `more` to `counts`, role by role; new roles come behind.
void AddRoleTokens(const std::vector<RoleTokens>& more, std::vector<RoleTokens>& counts);

struct ConversationOptions {
  bool train_on_inputs = false;  // prompts and the template's own words too; not turns that a row excludes
};

struct ConversationSample {
  Sample sample;
  std::vector<RoleTokens> roles;
};

// The samples of one conversation, at least one, before the length policy. Errors have the row's place.
// Thread-safe.
absl::StatusOr<std::vector<ConversationSample>> ConversationSamples(const ChatRow& chat,
                                                                    const ChatTemplate& chat_template,
                                                                    const Tokenizer& tokenizer,
                                                                    const ConversationOptions& options,
                                                                    const RowPlace& place);

}  // namespace ftune
