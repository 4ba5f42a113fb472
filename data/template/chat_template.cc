#include "data/template/chat_template.h"

#include <utility>

#include "base/error.h"
#include "data/template/chat_context.h"
#include "data/template/chat_spans.h"
#include "data/template/chat_turn.h"
#include "data/template/jinja_chat_template.h"

namespace ftune {
namespace {

absl::Status CheckNotEmpty(const ChatInput& input, const std::string& name) {
  if (!input.messages.is_array() || !input.messages.empty()) return absl::OkStatus();
  ErrorDetail detail;
  detail.file = name;
  detail.message = "a chat template cannot be applied to an empty conversation";
  detail.hint = "give at least one message";
  return DataError(std::move(detail));
}

}  // namespace

bool IsAssistant(const OrderedJson& message) {
  if (!message.is_object()) return false;
  const auto role = message.find("role");
  return role != message.end() && role->is_string() && role->get_ref<const std::string&>() == "assistant";
}

std::vector<uint8_t> AssistantMessages(const ChatInput& input) {
  std::vector<uint8_t> flags;
  for (const OrderedJson& message : input.messages) flags.push_back(IsAssistant(message));
  return flags;
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ParseChatTemplate(std::string_view source, std::string name,
                                                                const SpecialTokens& special) {
  return JinjaChatTemplate::Create(source, std::move(name), special, jinja::LocalTime);
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> JinjaChatTemplate::Create(std::string_view source,
                                                                        std::string name,
                                                                        const SpecialTokens& special,
                                                                        jinja::Clock clock) {
  FTUNE_ASSIGN_OR_RETURN(jinja::Template compiled, jinja::Template::Parse(source, std::move(name)));
  return std::unique_ptr<ChatTemplate>(new JinjaChatTemplate(std::move(compiled), special, std::move(clock)));
}

absl::StatusOr<jinja::Text> JinjaChatTemplate::RenderText(const ChatInput& input,
                                                          bool track_provenance) const {
  FTUNE_ASSIGN_OR_RETURN(jinja::Variables variables, MakeChatVariables(input, special_));
  return template_.Render(std::move(variables), track_provenance, clock_);
}

absl::StatusOr<std::string> JinjaChatTemplate::Render(const ChatInput& input) const {
  FTUNE_RETURN_IF_ERROR(CheckNotEmpty(input, template_.name()));
  FTUNE_ASSIGN_OR_RETURN(const jinja::Text text, RenderText(input, /*track_provenance=*/false));
  return text.bytes();
}

absl::StatusOr<RenderedChat> JinjaChatTemplate::RenderTurns(const ChatInput& input) const {
  FTUNE_RETURN_IF_ERROR(CheckNotEmpty(input, template_.name()));
  FTUNE_ASSIGN_OR_RETURN(const jinja::Text text, RenderText(input, /*track_provenance=*/true));
  return RenderedChat{.text = text.bytes(), .turns = FindTurns(text), .spans = {}};
}

absl::StatusOr<RenderedChat> JinjaChatTemplate::RenderWithSpans(const ChatInput& input,
                                                                std::span<const uint8_t> wanted) const {
  FTUNE_RETURN_IF_ERROR(CheckNotEmpty(input, template_.name()));
  SpanFinder finder;
  finder.name = template_.name();
  finder.eos = special_.eos.has_value() ? special_.eos->text : "";
  finder.has_generation = template_.has_generation();
  finder.render = [this](const ChatInput& other) { return RenderText(other, /*track_provenance=*/true); };
  return finder.Render(input, wanted);
}

}  // namespace ftune
