// TRL ships some templates twice, the second time with {% generation %}: two independent ways to the same
// spans.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/template/template_test_util.h"

namespace ftune {
namespace {

using test::Parse;

ChatInput Prefix(const OrderedJson& conversation, size_t count) {
  ChatInput input = test::Conversation(OrderedJson::array());
  for (size_t i = 0; i < count; ++i) input.messages.push_back(conversation["messages"][i]);
  if (conversation.contains("tools")) input.tools = conversation["tools"];
  return input;
}

struct Twins {
  std::unique_ptr<ChatTemplate> plain, marked;
  std::string at_end;  // a token after the last turn, which the marked one marks too

  // What a generation prompt already says (gpt-oss's "<|start|>assistant", Qwen3.5's "<think>") is marked,
  // but no model writes it.
  void LeavePromptsOut(const OrderedJson& conversation, RenderedChat& chat) const {
    for (MessageSpan& span : chat.spans) {
      ChatInput before = Prefix(conversation, static_cast<size_t>(span.message));
      before.add_generation_prompt = true;
      const auto prompt = plain->Render(before);
      if (!prompt.ok()) continue;
      const auto differs = std::mismatch(prompt->begin(), prompt->end(), chat.text.begin(), chat.text.end());
      span.bytes.begin = std::max(span.bytes.begin, differs.first - prompt->begin());
    }
  }

  std::vector<test::SpanText> Spans(const RenderedChat& chat) const {
    std::vector<test::SpanText> spans;
    for (const MessageSpan& span : chat.spans)
      spans.push_back({span.message, test::Bytes(chat.text, span.bytes)});
    return spans;
  }

  // Whether the two write the same text (some keep reasoning in the marked one); if so, their spans are
  // compared.
  bool Compare(const OrderedJson& conversation, size_t count) const {
    const ChatInput input = Prefix(conversation, count);
    const auto found = plain->RenderWithSpans(input, AssistantMessages(input));
    auto expected = marked->RenderWithSpans(input, AssistantMessages(input));
    if (!found.ok() || !expected.ok() || found->text != expected->text) return false;
    LeavePromptsOut(conversation, *expected);
    std::vector<test::SpanText> spans = Spans(*expected);
    std::erase_if(spans, [&](const auto& span) { return span.text == at_end; });
    CHECK(Spans(*found) == spans);
    return true;
  }
};

Twins ReadTwins(const std::string& name) {
  const auto parse = [&](const std::string& suffix) {
    auto parsed = Parse(test::ReadFile(test::MaterialDir() / "jinja" / "trl" / (name + suffix)));
    REQUIRE_MESSAGE(parsed.ok(), parsed.status().message());
    return *std::move(parsed);
  };
  return {parse(".jinja"), parse("_training.jinja"), name.starts_with("phi3") ? "</s>" : ""};
}

TEST_CASE("spans: templates agree with their {% generation %} variants") {
  const std::vector<std::string> names = {
      "gemma",  "gemma3",  "gptoss", "llama3",          "phi3",          "qwen3_instruct_2507",
      "phi3_5", "qwen2_5", "qwen3",  "qwen3_5_nothink", "qwen3_5_think", "qwen3_6"};
  if (!test::HasMaterial(static_cast<int>(names.size()))) return;
  const OrderedJson conversations = test::ReadFixture("conversations.json")["head"]["conversations"];
  for (const std::string& name : names) {
    CAPTURE(name);
    const Twins twins = ReadTwins(name);
    int compared = 0;
    for (const auto& [key, conversation] : conversations.items()) {
      CAPTURE(key);
      const OrderedJson& messages = conversation["messages"];
      // No template writes a generation prompt before the first message, to see what the prompt says.
      if (IsAssistant(messages[0])) continue;
      for (size_t count = 1; count <= messages.size(); ++count) {
        if (IsAssistant(messages[count - 1])) compared += twins.Compare(conversation, count);
      }
    }
    CHECK(compared >= 10);
  }
}

}  // namespace
}  // namespace ftune
