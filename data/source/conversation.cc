#include "data/source/conversation.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/source/trained_tokens.h"
#include "data/template/chat_context.h"

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

// Where two texts first differ, for a person: a piece of each.
std::string FirstDifference(std::string_view a, std::string_view b) {
  constexpr size_t kContext = 24;
  size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  const size_t begin = at > kContext ? at - kContext : 0;
  const auto piece = [&](std::string_view text) {
    return OrderedJson(std::string(text.substr(begin, at - begin + kContext)))
        .dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  };
  return StrCat(piece(a), " for ", piece(b));
}

class Conversation {
 public:
  Conversation(const ChatRow& chat, const ChatTemplate& chat_template, const Tokenizer& tokenizer,
               const ConversationOptions& options, const RowPlace& place)
      : chat_(chat), template_(chat_template), tokenizer_(tokenizer), options_(options), place_(place) {}

  absl::StatusOr<std::vector<ConversationSample>> Samples() const {
    if (!options_.train_on_inputs) return ByTurns();
    FTUNE_ASSIGN_OR_RETURN(ConversationSample whole, WithInputs());
    std::vector<ConversationSample> samples;
    samples.push_back(std::move(whole));
    return samples;
  }

 private:
  using Flags = std::vector<uint8_t>;

  // The first messages, rendered on their own, and which of them are learned from that.
  struct Part {
    size_t messages = 0;
    RenderedChat chat;  // with the spans of all that are trained
    Flags learned;

    // Behind the last byte of what message `index` says; 0 where the template writes nothing of it.
    int64_t EndOf(size_t index) const {
      int64_t end = 0;
      for (const MessageSpan& span : chat.spans) {
        if (static_cast<size_t>(span.message) == index) end = span.bytes.end;
      }
      return end;
    }
  };

  absl::Status TemplateError(const absl::Status& status) const {
    return RowError(place_, {.message = StrCat("the chat template does not take this row: ",
                                               std::string(status.message()))});
  }

  ChatInput Prefix(size_t messages) const {
    ChatInput prefix = chat_.input;
    prefix.messages.erase(prefix.messages.begin() + static_cast<std::ptrdiff_t>(messages),
                          prefix.messages.end());
    return prefix;
  }

  bool IsAssistantAt(size_t index) const { return IsAssistant(chat_.input.messages[index]); }

  absl::StatusOr<Part> RenderPart(size_t messages) const {
    Flags wanted(chat_.trained.begin(), chat_.trained.begin() + static_cast<std::ptrdiff_t>(messages));
    if (options_.split_turns == SplitTurns::kAlways) {
      for (size_t i = 0; i + 1 < messages; ++i) wanted[i] = wanted[i] && !IsAssistantAt(i);
    }
    absl::StatusOr<RenderedChat> chat = template_.RenderWithSpans(Prefix(messages), wanted);
    if (!chat.ok()) return TemplateError(chat.status());
    return Part{.messages = messages, .chat = *std::move(chat), .learned = Flags(messages, 0)};
  }

  // What a row says and the template leaves out without a word is an error: what the model is to do with
  // tools that it is never shown, and thinking that it should learn. `text` is that of the first `messages`.
  absl::Status CheckToolsAreWritten(const std::string& text, size_t messages) const;
  absl::Status CheckReasoningIsWritten(const std::string& text, size_t messages, size_t index) const;
  absl::StatusOr<ConversationSample> WithInputs() const;
  absl::StatusOr<std::vector<ConversationSample>> ByTurns() const;
  // The text of the messages up to and including `index`, where `part` does not begin with it; else nothing.
  std::optional<std::string> RenderedOtherwise(size_t index, const Part& part) const;
  ConversationSample Learn(const Part& part) const;
  ConversationSample MakeSample(const RenderedChat& chat, Encoding encoding, Flags trained) const;

  const ChatRow& chat_;
  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  const ConversationOptions& options_;
  const RowPlace& place_;
};

absl::Status Conversation::CheckToolsAreWritten(const std::string& text, size_t messages) const {
  if (chat_.input.tools.empty()) return absl::OkStatus();
  ChatInput without = Prefix(messages);
  without.tools = ChatInput().tools;
  const absl::StatusOr<std::string> same = template_.Render(without);
  if (!same.ok() || *same != text) return absl::OkStatus();
  return RowError(place_,
                  {.key = "tools",
                   .message = "the chat template does not write the row's tools",
                   .hint = "use a chat template that knows tools (data.chat_template), or take them out"});
}

absl::Status Conversation::CheckReasoningIsWritten(const std::string& text, size_t messages,
                                                   size_t index) const {
  ChatInput without = Prefix(messages);
  const std::string name = TakeOutReasoning(without.messages[index]);
  if (name.empty()) return absl::OkStatus();
  const absl::StatusOr<std::string> same = template_.Render(without);
  if (!same.ok() || *same != text) return absl::OkStatus();
  return RowError(place_,
                  {.key = StrCat("messages[", index, "].", name),
                   .message = "the chat template does not write this message's reasoning",
                   .hint = "use a chat template that knows reasoning (data.chat_template), or take it out"});
}

absl::StatusOr<ConversationSample> Conversation::WithInputs() const {
  const auto render = [&] {
    if (!chat_.has_untrained_flag) return template_.RenderTurns(chat_.input);
    Flags excluded = AssistantMessages(chat_.input);
    for (size_t i = 0; i < excluded.size(); ++i) excluded[i] = excluded[i] && !chat_.trained[i];
    return template_.RenderWithSpans(chat_.input, excluded);
  };
  const absl::StatusOr<RenderedChat> rendered = render();
  if (!rendered.ok()) return TemplateError(rendered.status());
  const size_t messages = chat_.input.messages.size();
  FTUNE_RETURN_IF_ERROR(CheckToolsAreWritten(rendered->text, messages));
  // Earlier turns' is left out on purpose by some templates.
  if (messages > 0 && IsAssistantAt(messages - 1)) {
    FTUNE_RETURN_IF_ERROR(CheckReasoningIsWritten(rendered->text, messages, messages - 1));
  }
  std::vector<TextSpan> spans;
  for (const MessageSpan& span : rendered->spans) spans.push_back(span.bytes);
  Encoding encoding = tokenizer_.Encode(rendered->text);
  Flags trained = TokensInSpans(rendered->text, encoding.spans, spans);
  for (uint8_t& flag : trained) flag = 1 - flag;
  return MakeSample(*rendered, std::move(encoding), std::move(trained));
}

std::optional<std::string> Conversation::RenderedOtherwise(size_t index, const Part& part) const {
  const int64_t end = part.EndOf(index);
  if (index + 1 == part.messages || end == 0) return std::nullopt;
  absl::StatusOr<std::string> alone = template_.Render(Prefix(index + 1));
  // A template that takes no conversation which ends there is never asked for this turn in another way.
  if (!alone.ok()) return std::nullopt;
  if (alone->starts_with(std::string_view(part.chat.text).substr(0, static_cast<size_t>(end))))
    return std::nullopt;
  return *std::move(alone);
}

absl::StatusOr<std::vector<ConversationSample>> Conversation::ByTurns() const {
  const bool always = options_.split_turns == SplitTurns::kAlways;
  std::vector<Part>
      parts;  // from the last turn back: each turn is learned in the part after it, if it may be
  for (size_t i = chat_.trained.size(); i-- > 0;) {
    if (!chat_.trained[i]) continue;
    // Only the assistant is ever asked for a turn: others' are learned where they stand.
    const bool generated = IsAssistantAt(i);
    if (parts.empty() && !(always && generated)) {
      FTUNE_ASSIGN_OR_RETURN(parts.emplace_back(), RenderPart(chat_.trained.size()));
    }
    const std::optional<std::string> otherwise =
        always || !generated ? std::nullopt : RenderedOtherwise(i, parts.back());
    if (otherwise && options_.split_turns == SplitTurns::kNever) {
      return RowError(
          place_,
          {.key = StrCat("messages[", i, "]"),
           .message = StrCat("the chat template writes this turn otherwise once the conversation goes on: ",
                             FirstDifference(parts.back().chat.text, *otherwise)),
           .hint = "let data.split_turns be auto, which makes a sample of the conversation up to this turn"});
    }
    if (otherwise || (always && generated)) {
      FTUNE_ASSIGN_OR_RETURN(parts.emplace_back(), RenderPart(i + 1));
    }
    parts.back().learned[i] = 1;
  }
  // Nothing is learned: the whole shows that.
  if (parts.empty()) {
    FTUNE_ASSIGN_OR_RETURN(parts.emplace_back(), RenderPart(chat_.trained.size()));
  }
  FTUNE_RETURN_IF_ERROR(CheckToolsAreWritten(parts.front().chat.text, parts.front().messages));
  for (const Part& part : parts) {
    for (size_t i = 0; i < part.learned.size(); ++i) {
      if (!part.learned[i] || !IsAssistantAt(i)) continue;
      FTUNE_RETURN_IF_ERROR(CheckReasoningIsWritten(part.chat.text, part.messages, i));
    }
  }
  std::vector<ConversationSample> samples;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const bool learned = std::find(part->learned.begin(), part->learned.end(), 1) != part->learned.end();
    if (learned || parts.size() == 1) samples.push_back(Learn(*part));
  }
  return samples;
}

ConversationSample Conversation::Learn(const Part& part) const {
  std::vector<TextSpan> spans;
  for (const MessageSpan& span : part.chat.spans) {
    if (part.learned[static_cast<size_t>(span.message)]) spans.push_back(span.bytes);
  }
  Encoding encoding = tokenizer_.Encode(part.chat.text);
  Flags trained = TokensInSpans(part.chat.text, encoding.spans, spans);
  std::vector<int64_t> turn_ends;
  for (size_t i = 0; i < part.learned.size(); ++i) {
    if (!part.learned[i]) continue;
    // The last trained token that begins before the turn's end.
    const auto behind =
        std::lower_bound(encoding.spans.begin(), encoding.spans.end(), part.EndOf(i),
                         [](const TextSpan& token, int64_t end) { return token.begin < end; });
    for (auto at = static_cast<size_t>(behind - encoding.spans.begin()); at-- > 0;) {
      if (!trained[at]) continue;
      turn_ends.push_back(static_cast<int64_t>(at));
      break;
    }
  }
  const auto tokens = static_cast<int64_t>(encoding.ids.size());
  ConversationSample sample = MakeSample(part.chat, std::move(encoding), std::move(trained));
  for (int64_t& end : turn_ends) end -= tokens - sample.sample.size();  // the BOS that were taken out
  sample.turn_ends = std::move(turn_ends);
  return sample;
}

ConversationSample Conversation::MakeSample(const RenderedChat& chat, Encoding encoding,
                                            Flags trained) const {
  ConversationSample sample;
  const auto& bos = tokenizer_.special().bos;
  while (bos && encoding.ids.size() > 1 && encoding.ids[0] == bos->id && encoding.ids[1] == bos->id) {
    encoding.ids.erase(encoding.ids.begin());
    encoding.spans.erase(encoding.spans.begin());
    trained.erase(trained.begin());
    sample.doubled_bos = true;
  }
  sample.sample = {std::move(encoding.ids), std::move(trained)};
  sample.roles = CountRoles(chat_.input, chat, encoding.spans, sample.sample);
  return sample;
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
  return Conversation(chat, chat_template, tokenizer, options, place).Samples();
}

}  // namespace ftune
