// Chat templates: a list of messages rendered to text by the model's own Jinja template, together with the
// characters of that text that the assistant wrote, which are the ones to learn from.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

// nlohmann's ordered form keeps the order of keys, which `tojson` in a template prints.
using OrderedJson = nlohmann::ordered_json;

struct ChatInput {
  OrderedJson messages = OrderedJson::array();  // [{role, content, …}], OpenAI's form
  OrderedJson tools;                            // null where there are none
  OrderedJson extra = OrderedJson::object();    // further template variables (enable_thinking …)
  bool add_generation_prompt = false;
};

// Bytes of a rendered text that belong to a message.
struct MessageSpan {
  int message = 0;  // index into ChatInput::messages
  TextSpan bytes;
};

struct RenderedChat {
  std::string text;
  // What the template writes for each message: header, words and end of turn. The rest of the text is the
  // template's own (a tool list, a generation prompt). Sorted, disjoint; a message may have several.
  std::vector<MessageSpan> turns;
  // What was said in the messages asked for. Of the assistant's: all that it writes after a generation
  // prompt, up to and including its end-of-turn token. Of others': their words, and what ends their turn
  // behind them. Sorted, disjoint; a message may have none, or several.
  std::vector<MessageSpan> spans;
};

bool IsAssistant(const OrderedJson& message);
// 1 for each message of the assistant.
std::vector<uint8_t> AssistantMessages(const ChatInput& input);

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  // Text only. A template's raise_exception, or an expression it cannot evaluate, is an error with its line.
  virtual absl::StatusOr<std::string> Render(const ChatInput& input) const = 0;
  // Text and turns.
  virtual absl::StatusOr<RenderedChat> RenderTurns(const ChatInput& input) const = 0;
  // Text, turns, and the spans of those messages whose flag in `wanted` (as many as messages) is not 0. An
  // error where they cannot be told for sure (say, what to do).
  virtual absl::StatusOr<RenderedChat> RenderWithSpans(const ChatInput& input,
                                                       std::span<const uint8_t> wanted) const = 0;
};

// `source` is Jinja text; `name` is used in messages (a file or "tokenizer_config.json"). Parse errors name
// the line. bos/eos/pad/unk texts become the template's variables bos_token, eos_token, …
absl::StatusOr<std::unique_ptr<ChatTemplate>> ParseChatTemplate(std::string_view source, std::string name,
                                                                const SpecialTokens& special);

}  // namespace ftune
