#include "data/source/conversation.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "data/source/trained_tokens.h"

namespace ftune {
namespace {

RoleTokens& CountsOf(std::string_view role, std::vector<RoleTokens>& counts) {
  const auto found =
      std::find_if(counts.begin(), counts.end(), [&](const RoleTokens& held) { return held.role == role; });
  return found != counts.end() ? *found : counts.emplace_back(RoleTokens{.role = std::string(role)});
}

std::string RoleOf(const OrderedJson& message) {
  const auto role = message.find("role");
  return role != message.end() && role->is_string() ? role->get<std::string>() : "";
}

// A token counts for the turn that its first byte stands in.
std::vector<RoleTokens> CountRoles(const ChatInput& input, const RenderedChat& chat,
                                   const std::vector<TextSpan>& tokens, const Sample& sample) {
  std::vector<RoleTokens> counts;
  auto turn = chat.turns.begin();
  for (size_t i = 0; i < tokens.size(); ++i) {
    while (turn != chat.turns.end() && turn->bytes.end <= tokens[i].begin) ++turn;
    const bool inside = turn != chat.turns.end() && turn->bytes.begin <= tokens[i].begin;
    RoleTokens& role =
        CountsOf(inside ? RoleOf(input.messages[static_cast<size_t>(turn->message)]) : std::string(), counts);
    ++role.tokens;
    role.trained += i > 0 && sample.trained[i] != 0;
  }
  return counts;
}

}  // namespace

void AddRoleTokens(const std::vector<RoleTokens>& more, std::vector<RoleTokens>& counts) {
  for (const RoleTokens& role : more) {
    RoleTokens& sum = CountsOf(role.role, counts);
    sum.tokens += role.tokens;
    sum.trained += role.trained;
  }
}

absl::StatusOr<std::vector<ConversationSample>> ConversationSamples(const ChatRow& chat,
                                                                    const ChatTemplate& chat_template,
                                                                    const Tokenizer& tokenizer,
                                                                    const ConversationOptions& options,
                                                                    const RowPlace& place) {
  const bool all_trained = options.train_on_inputs && !chat.has_untrained_flag;
  const absl::StatusOr<RenderedChat> rendered =
      all_trained ? chat_template.RenderTurns(chat.input) : chat_template.RenderWithSpans(chat.input);
  if (!rendered.ok()) {
    return RowError(place, {.message = StrCat("the chat template does not take this row: ",
                                              std::string(rendered.status().message()))});
  }
  Encoding encoding = tokenizer.Encode(rendered->text);
  std::vector<uint8_t> trained(encoding.ids.size(), 1);
  if (!all_trained) {
    // Tokens of the turns that are learned; with train_on_inputs, of those that are not.
    std::vector<TextSpan> spans;
    for (const MessageSpan& span : rendered->assistant) {
      if (chat.trained.at(static_cast<size_t>(span.message)) != options.train_on_inputs)
        spans.push_back(span.bytes);
    }
    trained = TokensInSpans(rendered->text, encoding.spans, spans);
    if (options.train_on_inputs) {
      for (uint8_t& flag : trained) flag = 1 - flag;
    }
  }
  ConversationSample sample;
  sample.sample = {std::move(encoding.ids), std::move(trained)};
  sample.roles = CountRoles(chat.input, *rendered, encoding.spans, sample.sample);
  std::vector<ConversationSample> samples;
  samples.push_back(std::move(sample));
  return samples;
}

}  // namespace ftune
