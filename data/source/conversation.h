// From a conversation to samples: its text by the chat template, the tokens of it, and which are learned.
//
// A model that is asked for turn t is shown the messages before it, rendered on their own. Some templates
// write an earlier turn otherwise once the conversation goes on (Qwen3 leaves out its thinking; Mistral moves
// the system message to the last question): what a token is predicted from in the whole conversation is then
// not what it will be generated from. Such turns get a sample of their own, which ends with them. That a turn
// is none of these is seen from the text itself: the rendering of the messages up to it begins with all that
// the whole has up to the turn's end.
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

enum class SplitTurns {
  kAuto,    // turns that the template later writes otherwise get samples of their own
  kAlways,  // every trained turn of the assistant does
  kNever,   // such turns are an error
};

struct ConversationOptions {
  // Prompts and the template's own words too, but not turns that a row excludes. The text is then learned as
  // it stands, in one sample: split_turns does not matter.
  bool train_on_inputs = false;
  SplitTurns split_turns = SplitTurns::kAuto;
};

struct ConversationSample {
  Sample sample;
  std::vector<RoleTokens> roles;
  // Where the last token of each turn that is learned stands, in order; empty with train_on_inputs.
  std::vector<int64_t> turn_ends;
  bool doubled_bos = false;  // the text begins with two BOS, of which one was taken out
};

// The samples of one conversation, before the length policy; at least one, and one only where all that is
// learned is learned from the whole. Errors have the row's place. Thread-safe.
absl::StatusOr<std::vector<ConversationSample>> ConversationSamples(const ChatRow& chat,
                                                                    const ChatTemplate& chat_template,
                                                                    const Tokenizer& tokenizer,
                                                                    const ConversationOptions& options,
                                                                    const RowPlace& place);

}  // namespace ftune
