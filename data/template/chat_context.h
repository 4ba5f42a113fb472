// A conversation as the variables a chat template sees, prepared as transformers' apply_chat_template does.
#pragma once

#include "absl/status/statusor.h"
#include "data/template/chat_template.h"
#include "data/template/jinja_interpreter.h"

namespace ftune {

// Takes a message's reasoning out, under each name that it goes by. The name of one that is a text and not
// blank; empty where there is none.
std::string TakeOutReasoning(OrderedJson& message);

// Texts of messages carry their message's index as provenance. The conversation's own variables go before
// `defaults` (an object), those before the special tokens. An error names the message or key that is not what
// the OpenAI form allows.
absl::StatusOr<jinja::Variables> MakeChatVariables(const ChatInput& input, const OrderedJson& defaults,
                                                   const SpecialTokens& special);

}  // namespace ftune
