#include "data/template/chat_spans.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/template/chat_turn.h"

namespace ftune {
namespace {

using jinja::Origin;
using jinja::Run;
using jinja::Text;

bool HasToolCalls(const OrderedJson& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && !calls->is_null() && !calls->empty();
}

// "<|eot_id|>" and its like, with plain or full-width bars.
bool EndsWithControlToken(std::string_view text) {
  constexpr std::string_view kWideBar = "\uFF5C";
  const bool wide = text.ends_with(StrCat(kWideBar, ">"));
  if (!wide && !text.ends_with("|>")) return false;
  const std::string open = StrCat("<", wide ? kWideBar : "|");
  const size_t begin = text.rfind(open);
  return begin != std::string_view::npos &&
         text.substr(begin).find_first_of(" \t\n") == std::string_view::npos;
}

// The spans of one rendered conversation.
class SpanSearch {
 public:
  SpanSearch(const SpanFinder& finder, const ChatInput& input, std::span<const uint8_t> wanted,
             const Text& text)
      : finder_(finder), input_(input), wanted_(wanted), text_(text), bytes_(text.bytes()) {}

  // Of the assistant by the template's {% generation %} blocks, or else by the messages' turns.
  absl::StatusOr<std::vector<MessageSpan>> Find() const;

 private:
  // A template that knows no tool calls leaves them out without a word; the model would learn to answer
  // nothing.
  absl::Status CheckToolCallsAreWritten() const;
  absl::StatusOr<std::vector<MessageSpan>> ByGenerationBlocks() const;
  absl::StatusOr<std::vector<MessageSpan>> ByTurns() const;
  // Of a message that is not the assistant's.
  std::vector<MessageSpan> WordsOf(int index) const;
  bool Wanted(int index) const { return wanted_[static_cast<size_t>(index)] != 0; }
  // A conversation like this one: its first `count` messages, then `more`.
  ChatInput Prefix(size_t count, bool add_generation_prompt, const OrderedJson* more = nullptr) const;
  absl::StatusOr<TextSpan> SpanOf(int index) const;
  absl::StatusOr<size_t> FindStart(int index, const Turn& turn) const;
  absl::StatusOr<size_t> FindEnd(int index, const Turn& turn, size_t start) const;
  // What the template may write as the generation prompt after the first `count` messages.
  std::vector<std::string> GenerationPrompts(size_t count) const;
  std::vector<std::string> GenerationPromptsOf(const ChatInput& history) const;
  // What the template writes before and after a plain answer in place of message `index`, or nothing if it
  // refuses.
  std::optional<std::pair<std::string, std::string>> ProbePlainAnswer(int index) const;
  std::string_view TurnText(const Turn& turn) const {
    return bytes_.substr(turn.begin, turn.end - turn.begin);
  }
  absl::Status Unsure(int index, std::string message) const;

  const SpanFinder& finder_;
  const ChatInput& input_;
  const std::span<const uint8_t> wanted_;
  const Text& text_;
  const std::string_view bytes_;
};

absl::Status SpanSearch::Unsure(int index, std::string message) const {
  ErrorDetail detail;
  detail.file = finder_.name;
  if (index >= 0) detail.key = StrCat("messages[", index, "]");
  detail.message = std::move(message);
  detail.hint =
      "mark what the assistant writes in the chat template with {% generation %} … {% endgeneration %}";
  return DataError(std::move(detail));
}

ChatInput SpanSearch::Prefix(size_t count, bool add_generation_prompt, const OrderedJson* more) const {
  ChatInput prefix;
  for (size_t i = 0; i < count; ++i) prefix.messages.push_back(input_.messages[i]);
  if (more != nullptr) prefix.messages.push_back(*more);
  prefix.tools = input_.tools;
  prefix.extra = input_.extra;
  prefix.add_generation_prompt = add_generation_prompt;
  return prefix;
}

absl::StatusOr<std::vector<MessageSpan>> SpanSearch::Find() const {
  FTUNE_RETURN_IF_ERROR(CheckToolCallsAreWritten());
  std::vector<MessageSpan> spans;
  const std::vector<uint8_t> assistant = AssistantMessages(input_);
  for (size_t i = 0; i < assistant.size(); ++i) {
    const int index = static_cast<int>(i);
    if (assistant[i] || !Wanted(index)) continue;
    const std::vector<MessageSpan> words = WordsOf(index);
    spans.insert(spans.end(), words.begin(), words.end());
  }
  FTUNE_ASSIGN_OR_RETURN(const std::vector<MessageSpan> answers,
                         finder_.has_generation ? ByGenerationBlocks() : ByTurns());
  spans.insert(spans.end(), answers.begin(), answers.end());
  std::sort(spans.begin(), spans.end(),
            [](const MessageSpan& a, const MessageSpan& b) { return a.bytes.begin < b.bytes.begin; });
  for (size_t i = 1; i < spans.size(); ++i) {
    if (spans[i].bytes.begin < spans[i - 1].bytes.end) return Unsure(spans[i].message, "turns overlap");
  }
  return spans;
}

absl::Status SpanSearch::CheckToolCallsAreWritten() const {
  for (size_t i = 0; i < input_.messages.size(); ++i) {
    if (!IsAssistant(input_.messages[i]) || !HasToolCalls(input_.messages[i])) continue;
    const bool written = std::any_of(text_.runs().begin(), text_.runs().end(), [&](const Run& run) {
      return run.tag.source == static_cast<int32_t>(i) && run.tag.origin == Origin::kToolCalls;
    });
    if (written) continue;
    ErrorDetail detail;
    detail.file = finder_.name;
    detail.key = StrCat("messages[", i, "].tool_calls");
    detail.message = "the template does not write this message's tool calls";
    detail.hint = "use a chat template that knows tool calls, or leave such conversations out";
    return DataError(std::move(detail));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MessageSpan>> SpanSearch::ByGenerationBlocks() const {
  struct Block {
    int32_t generation;
    int message = -1;
    size_t begin = 0;
    size_t end = 0;
    size_t body_end = 0;  // behind the last byte of a message's data
  };
  std::vector<Block> blocks;
  size_t begin = 0;
  for (const Run& run : text_.runs()) {
    if (run.tag.generation >= 0) {
      const bool goes_on =
          !blocks.empty() && blocks.back().generation == run.tag.generation && blocks.back().end == begin;
      if (!goes_on) blocks.push_back({.generation = run.tag.generation, .begin = begin, .body_end = begin});
      Block& block = blocks.back();
      if (block.message < 0) block.message = run.tag.turn >= 0 ? run.tag.turn : run.tag.source;
      if (run.tag.origin >= Origin::kBody) block.body_end = run.end;
      block.end = run.end;
    }
    begin = run.end;
  }
  int last = -1;
  for (size_t i = 0; i < input_.messages.size(); ++i) {
    if (IsAssistant(input_.messages[i])) last = static_cast<int>(i);
  }
  std::vector<MessageSpan> spans;
  for (const Block& block : blocks) {
    const size_t end = TrimEnd(bytes_, block.body_end, block.end);
    if (end == block.begin) continue;
    // A block after the loop over the messages (a closing token) belongs to the message before it.
    const int owner = block.message >= 0 ? block.message : spans.empty() ? last : spans.back().message;
    if (owner < 0) return Unsure(-1, "a {% generation %} block marks text although no assistant speaks");
    spans.push_back({owner, {static_cast<int64_t>(block.begin), static_cast<int64_t>(end)}});
  }
  if (spans.empty() && last >= 0) return Unsure(last, "the template's {% generation %} blocks mark nothing");
  // Of others' messages a block says nothing that WordsOf does not.
  std::erase_if(spans, [&](const MessageSpan& span) {
    return !Wanted(span.message) || !IsAssistant(input_.messages[static_cast<size_t>(span.message)]);
  });
  return spans;
}

absl::StatusOr<std::vector<MessageSpan>> SpanSearch::ByTurns() const {
  std::vector<MessageSpan> spans;
  for (size_t i = 0; i < input_.messages.size(); ++i) {
    const int index = static_cast<int>(i);
    if (!IsAssistant(input_.messages[i]) || !Wanted(index)) continue;
    FTUNE_ASSIGN_OR_RETURN(const TextSpan bytes, SpanOf(index));
    spans.push_back({index, bytes});
  }
  return spans;
}

std::vector<MessageSpan> SpanSearch::WordsOf(int index) const {
  std::vector<MessageSpan> spans;
  int64_t begin = 0;
  for (const Run& run : text_.runs()) {
    const auto end = static_cast<int64_t>(run.end);
    if (run.tag.source == index && run.tag.origin >= Origin::kBody) {
      const bool goes_on = !spans.empty() && spans.back().bytes.end == begin;
      if (goes_on) {
        spans.back().bytes.end = end;
      } else {
        spans.push_back({index, {begin, end}});
      }
    }
    begin = end;
  }
  // In a turn of its own all from the first word to the end of the turn; elsewhere (a system message inside
  // the first question) the words alone.
  Turn turn;
  if (spans.empty() || FindTurn(text_, index, &turn) != TurnFound::kOne) return spans;
  const auto inside = [&](const MessageSpan& span) {
    return span.bytes.begin >= static_cast<int64_t>(turn.begin) &&
           span.bytes.end <= static_cast<int64_t>(turn.end);
  };
  if (!std::all_of(spans.begin(), spans.end(), inside)) return spans;
  const auto words_end = static_cast<size_t>(spans.back().bytes.end);
  const size_t end = TrimEnd(bytes_, words_end, turn.end);
  return {{index, {spans.front().bytes.begin, static_cast<int64_t>(end)}}};
}

absl::StatusOr<TextSpan> SpanSearch::SpanOf(int index) const {
  Turn turn;
  switch (FindTurn(text_, index, &turn)) {
    case TurnFound::kNone:
      return Unsure(index, "the template does not write this assistant message in a loop over the messages");
    case TurnFound::kSeveral:
      return Unsure(index, "the template writes this assistant message in several places");
    case TurnFound::kOne:
      break;
  }
  FTUNE_ASSIGN_OR_RETURN(const size_t start, FindStart(index, turn));
  FTUNE_ASSIGN_OR_RETURN(const size_t end, FindEnd(index, turn, start));
  return TextSpan{static_cast<int64_t>(start), static_cast<int64_t>(end)};
}

// Where in the turn's text the longest candidate that stands before the message's words ends, 0 if none does.
// At the turn's beginning as a rule; a template may put a default system message first.
size_t EndOfPrompt(std::string_view turn_text, size_t body_begin,
                   const std::vector<std::string>& candidates) {
  size_t longest = 0;
  size_t end = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.size() <= longest || IsBlank(candidate)) continue;
    const bool leads = turn_text.starts_with(candidate);
    const size_t at = leads ? 0 : turn_text.substr(0, body_begin).rfind(candidate);
    if (at == std::string_view::npos) continue;
    longest = candidate.size();
    end = at + candidate.size();
  }
  return end;
}

// How far the turn goes along with a candidate before the template does something else, back to where a piece
// of its writing or a token ends, and never into the message's own words. Only if all that precedes those
// words is then prompt, or if what the candidate goes on with is a mark (the <think> that earlier turns are
// shown without). 0 if it does not.
size_t EndOfCommonPrompt(std::string_view turn_text, const Turn& turn,
                         const std::vector<std::string>& candidates) {
  size_t best = 0;
  for (const std::string& candidate : candidates) {
    const size_t body_begin = turn.body_begin - turn.begin;
    const size_t common = std::min(CommonPrefix(turn_text, candidate), body_begin);
    size_t at = 0;
    for (const size_t boundary : turn.boundaries) {
      if (boundary - turn.begin <= common) at = std::max(at, boundary - turn.begin);
    }
    for (size_t i = common; i > at; --i) {
      if (turn_text[i - 1] == '>' || turn_text[i - 1] == '\n') at = i;
    }
    const bool all_prompt = turn.has_body() && at == body_begin;
    const bool mark_follows = at < candidate.size() && (candidate[at] == '<' || candidate[at] == '[');
    if (all_prompt || mark_follows) best = std::max(best, at);
  }
  return IsBlank(turn_text.substr(0, best)) ? 0 : best;
}

absl::StatusOr<size_t> SpanSearch::FindStart(int index, const Turn& turn) const {
  const std::string_view turn_text = TurnText(turn);
  const size_t body_begin = turn.body_begin - turn.begin;
  const std::vector<std::string> prompts = GenerationPrompts(static_cast<size_t>(index));
  if (const size_t end = EndOfPrompt(turn_text, body_begin, prompts)) return turn.begin + end;
  if (const size_t end = EndOfCommonPrompt(turn_text, turn, prompts)) return turn.begin + end;
  if (turn.has_body() && IsBlank(turn_text.substr(0, body_begin))) return turn.begin;
  // Templates without a generation prompt: what comes before any answer is the header.
  if (const auto probe = ProbePlainAnswer(index)) {
    const std::vector<std::string> header = {probe->first};
    if (IsBlank(header[0])) return turn.begin;
    if (const size_t end = EndOfPrompt(turn_text, body_begin, header)) return turn.begin + end;
    if (const size_t end = EndOfCommonPrompt(turn_text, turn, header)) return turn.begin + end;
  }
  return Unsure(
      index,
      "it cannot be told where the assistant begins to write: the template begins this message with "
      "other text than its generation prompt");
}

absl::StatusOr<size_t> SpanSearch::FindEnd(int index, const Turn& turn, size_t start) const {
  const size_t said_until = turn.has_body() ? std::max(turn.body_end, start) : start;
  const size_t end = TrimEnd(bytes_, said_until, turn.end);
  const std::string_view tail = bytes_.substr(said_until, end - said_until);
  if (tail.empty()) {
    // Some templates close the last message after their loop.
    const std::string_view rest = bytes_.substr(turn.end);
    if (!finder_.eos.empty() && rest.starts_with(finder_.eos)) return turn.end + finder_.eos.size();
    return Unsure(
        index,
        "the template writes no end-of-turn token after this assistant message, so the model would never "
        "learn to stop");
  }
  // After a plain answer the template's own words are the end of the turn. After tool calls they may also be
  // the calls' closing bracket.
  if (!HasToolCalls(input_.messages[index])) return end;
  if (!finder_.eos.empty() && tail.ends_with(finder_.eos)) return end;
  if (EndsWithControlToken(tail)) return end;
  const auto probe = ProbePlainAnswer(index);
  if (probe.has_value() && !probe->second.empty() && tail.ends_with(probe->second)) return end;
  return Unsure(index, StrCat("it cannot be told whether '", tail,
                              "', which the template writes after this message's "
                              "tool calls, ends the assistant's turn"));
}

std::vector<std::string> SpanSearch::GenerationPrompts(size_t count) const {
  std::vector<std::string> prompts = GenerationPromptsOf(Prefix(count, true));
  if (!prompts.empty()) return prompts;
  // The template refuses a conversation that ends here (it begins with the assistant, say): a user's question
  // then.
  const OrderedJson question = {{"role", "user"}, {"content", "x"}};
  return GenerationPromptsOf(Prefix(0, true, &question));
}

std::vector<std::string> SpanSearch::GenerationPromptsOf(const ChatInput& history) const {
  const absl::StatusOr<Text> with_prompt = finder_.render(history);
  if (!with_prompt.ok()) return {};
  const std::string& bytes = with_prompt->bytes();
  // What follows the last byte that stems from a message.
  size_t history_end = 0;
  size_t begin = 0;
  std::vector<size_t> boundaries = {0};
  for (const Run& run : with_prompt->runs()) {
    if (run.tag.turn >= 0 || run.tag.source >= 0) history_end = run.end;
    boundaries.push_back(begin);
    begin = run.end;
  }
  boundaries.push_back(begin);
  std::vector<std::string> prompts = {bytes.substr(history_end)};
  // What the flag alone adds: the end of a message may lie outside the loop, and the prompt inside it.
  ChatInput closed = history;
  closed.add_generation_prompt = false;
  const absl::StatusOr<Text> without_prompt = finder_.render(closed);
  if (!without_prompt.ok()) return prompts;
  size_t added_at = without_prompt->size();
  if (!bytes.starts_with(without_prompt->bytes())) {
    const size_t common = CommonPrefix(bytes, without_prompt->bytes());
    const auto past = std::upper_bound(boundaries.begin(), boundaries.end(), common);
    added_at = std::max(history_end, *(past - 1));
  }
  prompts.push_back(bytes.substr(added_at));
  return prompts;
}

std::optional<std::pair<std::string, std::string>> SpanSearch::ProbePlainAnswer(int index) const {
  const OrderedJson answer = {{"role", "assistant"}, {"content", "x"}};
  const absl::StatusOr<Text> text = finder_.render(Prefix(static_cast<size_t>(index), false, &answer));
  Turn turn;
  if (!text.ok() || FindTurn(*text, index, &turn) != TurnFound::kOne || !turn.has_body()) return std::nullopt;
  const size_t end = TrimEnd(text->bytes(), turn.body_end, turn.end);
  return std::pair(text->bytes().substr(turn.begin, turn.body_begin - turn.begin),
                   text->bytes().substr(turn.body_end, end - turn.body_end));
}

}  // namespace

absl::StatusOr<RenderedChat> SpanFinder::Render(const ChatInput& input,
                                                std::span<const uint8_t> wanted) const {
  FTUNE_ASSIGN_OR_RETURN(const Text text, render(input));
  RenderedChat chat;
  chat.text = text.bytes();
  chat.turns = FindTurns(text);
  if (has_generation || !input.add_generation_prompt) {
    FTUNE_ASSIGN_OR_RETURN(chat.spans, SpanSearch(*this, input, wanted, text).Find());
    return chat;
  }
  // The prompt may be written inside the last message's iteration: it must not count as that message's.
  ChatInput closed = input;
  closed.add_generation_prompt = false;
  FTUNE_ASSIGN_OR_RETURN(const Text closed_text, render(closed));
  if (chat.text.starts_with(closed_text.bytes())) {
    FTUNE_ASSIGN_OR_RETURN(chat.spans, SpanSearch(*this, closed, wanted, closed_text).Find());
    return chat;
  }
  if (!input.messages.empty() && IsAssistant(input.messages.back())) {
    ErrorDetail detail;
    detail.file = name;
    detail.message =
        "the template writes the last assistant message otherwise when a generation prompt follows";
    detail.hint = "render without add_generation_prompt";
    return DataError(std::move(detail));
  }
  FTUNE_ASSIGN_OR_RETURN(chat.spans, SpanSearch(*this, input, wanted, text).Find());
  return chat;
}

}  // namespace ftune
