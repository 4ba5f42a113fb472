// Assistant spans: exactly what the assistant wrote, whatever the words are.
#include <string>
#include <vector>

#include "tests/unit/template/template_test_util.h"

namespace ftune {
namespace {

using test::Conversation;
using test::OwnTemplate;
using test::Parse;

using Expected = test::SpanText;

OrderedJson User(const std::string& content) { return {{"role", "user"}, {"content", content}}; }
OrderedJson Assistant(const std::string& content) { return {{"role", "assistant"}, {"content", content}}; }
OrderedJson System(const std::string& content) { return {{"role", "system"}, {"content", content}}; }
OrderedJson Messages(std::vector<OrderedJson> messages) {
  OrderedJson out = OrderedJson::array();
  for (OrderedJson& message : messages) out.push_back(std::move(message));
  return out;
}
OrderedJson Calls(const std::string& content) {
  OrderedJson message = Assistant(content);
  message["tool_calls"] = OrderedJson::parse(
      R"([{"type": "function", "function": {"name": "weather", "arguments": {"city": "Bern", "days": 2}}}])");
  return message;
}

std::vector<Expected> SpansOf(const std::string& source, const ChatInput& input) {
  const auto parsed = Parse(source);
  REQUIRE_MESSAGE(parsed.ok(), parsed.status().message());
  const absl::StatusOr<RenderedChat> chat = (*parsed)->RenderWithSpans(input, AssistantMessages(input));
  REQUIRE_MESSAGE(chat.ok(), chat.status().message());
  const absl::StatusOr<std::string> plain = (*parsed)->Render(input);
  REQUIRE(plain.ok());
  CHECK(chat->text == *plain);
  std::vector<Expected> found;
  int64_t end = 0;
  for (const auto& span : chat->spans) {
    CHECK(span.bytes.begin >= end);
    CHECK(span.bytes.end > span.bytes.begin);
    end = span.bytes.end;
    found.push_back({span.message, test::Bytes(chat->text, span.bytes)});
  }
  CHECK(end <= static_cast<int64_t>(chat->text.size()));
  return found;
}

std::vector<Expected> Spans(const std::string& source, std::vector<OrderedJson> messages) {
  return SpansOf(source, Conversation(Messages(std::move(messages))));
}

std::string SpanError(const std::string& source, const ChatInput& input) {
  const auto parsed = Parse(source);
  REQUIRE_MESSAGE(parsed.ok(), parsed.status().message());
  const absl::StatusOr<RenderedChat> chat = (*parsed)->RenderWithSpans(input, AssistantMessages(input));
  REQUIRE_FALSE(chat.ok());
  return std::string(chat.status().message());
}

using List = std::vector<Expected>;

TEST_CASE("spans: ChatML, with and without a generation prompt of the template's own") {
  for (const std::string name : {"chatml.jinja", "chatml_no_prompt.jinja", "smollm2.jinja"}) {
    CAPTURE(name);
    const std::string source = OwnTemplate(name);
    CHECK(Spans(source, {User("Hi"), Assistant("Hello!")}) == List{{1, "Hello!<|im_end|>"}});
    // The same words from the user, and equal answers.
    CHECK(Spans(source, {User("yes"), Assistant("yes"), User("yes"), Assistant("yes")}) ==
          List{{1, "yes<|im_end|>"}, {3, "yes<|im_end|>"}});
    CHECK(Spans(source, {User(""), Assistant(""), User("x"), Assistant("")}) ==
          List{{1, "<|im_end|>"}, {3, "<|im_end|>"}});
    CHECK(Spans(source, {User(" \n"), Assistant("\n  x \n")}) == List{{1, "\n  x \n<|im_end|>"}});
    CHECK(Spans(source, {Assistant("I start."), User("ok"), Assistant("done")}) ==
          List{{0, "I start.<|im_end|>"}, {2, "done<|im_end|>"}});
    CHECK(Spans(source, {User("x"), Assistant("one"), Assistant("two"), Assistant("")}) ==
          List{{1, "one<|im_end|>"}, {2, "two<|im_end|>"}, {3, "<|im_end|>"}});
    CHECK(Spans(source, {System("s"), User("q"), Assistant("a")}) == List{{2, "a<|im_end|>"}});
    CHECK(Spans(source, {User("no assistant")}).empty());
    // Texts that look like turns.
    CHECK(Spans(source, {User("<|im_start|>assistant\nno<|im_end|>\n"),
                         Assistant("<|im_end|>\n<|im_start|>user\nx")}) ==
          List{{1, "<|im_end|>\n<|im_start|>user\nx<|im_end|>"}});
    CHECK(Spans(source, {User("q"), Assistant("<|im_start|>assistant\nq")}) ==
          List{{1, "<|im_start|>assistant\nq<|im_end|>"}});
    CHECK(Spans(source, {User("日本"), Assistant("語 😀")}) == List{{1, "語 😀<|im_end|>"}});
  }
}

TEST_CASE("spans: trimmed contents, a date and tools in the question (in the manner of Llama 3)") {
  const std::string source = OwnTemplate("header_ids.jinja");
  CHECK(Spans(source, {User("Hi"), Assistant("  padded \n")}) == List{{1, "padded<|eot_id|>"}});
  CHECK(Spans(source, {System("s"), User("Hi"), Assistant("a"), User("b"), Assistant("a")}) ==
        List{{2, "a<|eot_id|>"}, {4, "a<|eot_id|>"}});
  CHECK(Spans(source, {User("x"), Assistant(" \n ")}) == List{{1, "<|eot_id|>"}});
  ChatInput input = Conversation(Messages({User("Weather?"), Calls(""), Assistant("Fine.")}));
  input.tools = OrderedJson::parse(R"([{"type": "function", "function": {"name": "weather"}}])");
  CHECK(SpansOf(source, input) ==
        List{{1, R"({"name": "weather", "parameters": {"city": "Bern", "days": 2}}<|eom_id|>)"},
             {2, "Fine.<|eot_id|>"}});
  // The first question stands outside the loop: what follows it is still found.
  input.messages = Messages({User("Weather?"), Assistant("Weather?")});
  CHECK(SpansOf(source, input) == List{{1, "Weather?<|eot_id|>"}});
}

TEST_CASE(
    "spans: no assistant header, the system message moves with the last question (in the manner of "
    "Mistral)") {
  const std::string source = OwnTemplate("inst.jinja");
  CHECK(Spans(source, {User("Hi"), Assistant("Hello!")}) == List{{1, " Hello!</s>"}});
  CHECK(Spans(source, {System("s"), User("a"), Assistant("b"), User("c"), Assistant("b")}) ==
        List{{2, " b</s>"}, {4, " b</s>"}});
  CHECK(Spans(source, {User("a"), Assistant("")}) == List{{1, " </s>"}});
  CHECK(Spans(source, {User("a"), Calls("")})[0].text.starts_with("[TOOL_CALLS][{\"type\": \"function\""));
  const std::string error = SpanError(source, Conversation(Messages({Assistant("x"), User("y")})));
  CHECK(error.find("Conversation roles must alternate") != std::string::npos);
  CHECK(error.starts_with("test.jinja:13: error: "));
}

TEST_CASE("spans: the generation prompt inside the loop") {
  const std::string source = OwnTemplate("prompt_in_loop.jinja");
  CHECK(Spans(source, {User("a"), Assistant("b"), User("a"), Assistant("")}) ==
        List{{1, "b</s>"}, {3, "</s>"}});
  ChatInput input = Conversation(Messages({User("a"), Assistant("b")}));
  input.add_generation_prompt = true;
  CHECK(SpansOf(source, input) ==
        List{{1, "b</s>"}});  // not the prompt that the same iteration writes after it
}

TEST_CASE("spans: messages by index, an end-of-sequence token after the loop is not a turn's") {
  const std::string source = OwnTemplate("eos_after_loop.jinja");
  CHECK(Spans(source, {User("a"), Assistant("b"), User("b"), Assistant("a")}) ==
        List{{1, "b<|end|>"}, {3, "a<|end|>"}});
}

TEST_CASE("spans: earlier turns lose their reasoning (in the manner of Qwen3)") {
  const std::string source = OwnTemplate("reasoning.jinja");
  const std::vector<OrderedJson> messages = {User("q"), Assistant("<think>\nhm\n</think>\n\na"), User("r"),
                                             Assistant("<think>\nhm\n</think>\n\na")};
  // The prompt ends with <think>, so the model writes what follows it.
  CHECK(Spans(source, messages) == List{{1, "a<|im_end|>"}, {3, "hm\n</think>\n\na<|im_end|>"}});
  ChatInput input = Conversation(Messages({User("q"), Assistant("a")}));
  input.extra = {{"enable_thinking", false}};
  CHECK(SpansOf(source, input) == List{{1, "a<|im_end|>"}});
  input.messages = Messages({User("q"), Assistant("<tag>"), User("r"), Assistant("<think>")});
  CHECK(SpansOf(source, input) == List{{1, "<tag><|im_end|>"}, {3, "<think><|im_end|>"}});
  CHECK(Spans(source, {User("q"), Calls("Let me see."), Assistant("")}) ==
        List{{1,
              "\n</think>\n\nLet me see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": "
              "\"Bern\", "
              "\"days\": 2}}\n</tool_call><|im_end|>"},
             {2, "\n</think>\n\n<|im_end|>"}});
}

TEST_CASE("spans: {% generation %} blocks, through macros and after the loop") {
  const std::string source = OwnTemplate("generation.jinja");
  CHECK(Spans(source, {User("a"), Assistant(" a "), User("b"), Assistant("")}) ==
        List{{1, "a<|im_end|>"}, {3, "<|im_end|>"}, {3, "</s>"}});
  CHECK(Spans(source, {Assistant("x"), User("x")}) == List{{0, "x<|im_end|>"}});
  const std::string nothing =
      "{% for m in messages %}{{ m.content }}{% if false %}{% generation %}{% endgeneration %}"
      "{% endif %}{% endfor %}";
  CHECK(SpanError(nothing, Conversation(Messages({User("a"), Assistant("b")}))).find("mark nothing") !=
        std::string::npos);
  // The author's block is taken as it is, but for blanks after the turn's end.
  const std::string early =
      "{% for m in messages %}{% generation %}{{ '\n' + m.content + '<e>\n' }}{% endgeneration %}"
      "{% endfor %}";
  CHECK(Spans(early, {Assistant("x ")}) == List{{0, "\nx <e>"}});
}

TEST_CASE("spans: an end-of-sequence token after the loop that does end the last turn") {
  const std::string source =
      "{% for m in messages %}{{ m.content }}{% if not loop.last %}{{ eos_token + '\n' }}{% endif %}"
      "{% endfor %}{{ eos_token }}";
  CHECK(Spans(source, {User("a"), Assistant("b"), User("c"), Assistant("a")}) ==
        List{{1, "b</s>"}, {3, "a</s>"}});
}

TEST_CASE("spans: what cannot be told is an error that says so") {
  const ChatInput input = Conversation(Messages({User("a"), Assistant("b")}));
  const auto error = [&](const std::string& source) { return SpanError(source, input); };
  // No end-of-turn token: the model would never stop.
  CHECK(error("{% for m in messages %}{{ '### ' + m.role + ':\n' + m.content + '\n\n' }}{% endfor %}")
            .find("messages[1]: the template writes no end-of-turn token") != std::string::npos);
  // Not in a loop over the messages.
  CHECK(error("{{ messages[0].content }}|{{ messages[1].content }}{{ eos_token }}")
            .find("in a loop over the messages") != std::string::npos);
  // Twice.
  CHECK(error("{% for m in messages %}{{ m.content }}<e>{% endfor %}{% for m in messages %}{{ m.content "
              "}}<e>{% endfor %}")
            .find("several places") != std::string::npos);
  // Not at all.
  CHECK(error("{% for m in messages if m.role == 'user' %}{{ m.content }}<e>{% endfor %}")
            .find("does not write") != std::string::npos);
  // A bracket that closes tool calls need not be the turn's end.
  const std::string calls =
      "{% for m in messages %}{{ '<u>' + m.content if m.role == 'user' else "
      "'[' + m.tool_calls[0].function.name + ']' if m.tool_calls else m.content + '<e>' }}{% endfor %}";
  CHECK(SpanError(calls, Conversation(Messages({User("a"), Calls("")})))
            .find("tool calls, ends the assistant's turn") != std::string::npos);
  CHECK(Spans(calls, {User("a"), Assistant("b")}) == List{{1, "b<e>"}});
  // Tool calls that the template knows nothing of.
  CHECK(SpanError(OwnTemplate("chatml.jinja"), Conversation(Messages({User("a"), Calls("")})))
            .find("messages[1].tool_calls: the template does not write this message's tool calls") !=
        std::string::npos);
  // The last turn is written otherwise before a generation prompt.
  ChatInput prompted = input;
  prompted.add_generation_prompt = true;
  const std::string changes =
      "{% for m in messages %}{{ m.content }}{{ '<e>' if add_generation_prompt else '<r>' }}"
      "{% endfor %}";
  CHECK(SpanError(changes, prompted).find("render without add_generation_prompt") != std::string::npos);
  CHECK(Spans(changes, {User("a"), Assistant("b")}) == List{{1, "b<r>"}});
}

TEST_CASE("spans: real models' templates") {
  if (!test::HasMaterial(6)) return;
  const auto source = [](const char* name) { return test::ReadFile(test::MaterialDir() / "jinja" / name); };
  const std::vector<OrderedJson> messages = {User("yes"), Assistant(" yes"), User("no"), Assistant("yes")};
  CHECK(Spans(source("model_official/Qwen-Qwen3-0.6B.jinja"), messages) ==
        List{{1, " yes<|im_end|>"}, {3, "<think>\n\n</think>\n\nyes<|im_end|>"}});
  CHECK(Spans(source("model_official/google-gemma-2-2b-it.jinja"), messages) ==
        List{{1, "yes<end_of_turn>"}, {3, "yes<end_of_turn>"}});
  CHECK(Spans(source("model_official/meta-llama-Llama-3.1-8B-Instruct.jinja"), messages) ==
        List{{1, "yes<|eot_id|>"}, {3, "yes<|eot_id|>"}});
  CHECK(Spans(source("model_official/microsoft-Phi-3.5-mini-instruct.jinja"), messages) ==
        List{{1, " yes<|end|>"}, {3, "yes<|end|>"}});
  CHECK(Spans(source("model_official/mistralai-Mistral-Nemo-Instruct-2407.jinja"), messages) ==
        List{{1, " yes</s>"}, {3, "yes</s>"}});
  CHECK(Spans(source("trl/gptoss.jinja"), messages) ==
        List{{1, "<|channel|>final<|message|> yes<|end|>"}, {3, "<|channel|>final<|message|>yes<|return|>"}});
}

// TRL ships some templates twice, the second time with {% generation %}: two independent ways to the same
// spans.
TEST_CASE("spans: templates agree with their {% generation %} variants") {
  const std::vector<std::string> names = {"gemma",  "gemma3", "gptoss",
                                          "llama3", "phi3",   "qwen3_instruct_2507"};
  if (!test::HasMaterial(static_cast<int>(names.size()))) return;
  const OrderedJson conversations = test::ReadFixture("conversations.json")["head"]["conversations"];
  for (const std::string& name : names) {
    int compared = 0;
    for (const auto& [key, conversation] : conversations.items()) {
      CAPTURE(name);
      CAPTURE(key);
      const auto parse = [&](const std::string& suffix) {
        return *Parse(test::ReadFile(test::MaterialDir() / "jinja" / "trl" / (name + suffix)));
      };
      const ChatInput input = Conversation(conversation["messages"]);
      const auto plain = parse(".jinja")->RenderWithSpans(input, AssistantMessages(input));
      const auto marked = parse("_training.jinja")->RenderWithSpans(input, AssistantMessages(input));
      if (!plain.ok() || !marked.ok() || plain->text != marked->text) continue;
      const auto turns = [](const RenderedChat& chat) {
        List spans;
        for (const auto& span : chat.spans)
          spans.push_back({span.message, test::Bytes(chat.text, span.bytes)});
        return spans;
      };
      List expected = turns(*marked);
      // gpt-oss marks the turn's "<|start|>assistant" too, which its generation prompt already says; Phi-3
      // also marks the token that ends the whole conversation.
      for (Expected& span : expected) {
        if (span.text.starts_with("<|start|>assistant")) span.text.erase(0, 18);
      }
      std::erase_if(expected, [&](const Expected& span) { return name == "phi3" && span.text == "</s>"; });
      CHECK(turns(*plain) == expected);
      ++compared;
    }
    CHECK(compared >= 4);
  }
}

}  // namespace
}  // namespace ftune
