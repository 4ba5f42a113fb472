#include "data/source/conversation.h"

#include <doctest/doctest.h>

#include "fakes.h"
#include "files.h"

namespace ftune {
namespace {

ChatRow Row(const std::string& json, TrainTurns turns = TrainTurns::kAll) {
  const OrderedJson parsed = OrderedJson::parse(json);
  const RowPlace place{"f.jsonl", 3};
  const RowMapping mapping;
  auto row = ReadChatRow(RowFields(parsed, place, mapping), {.train_on_turns = turns});
  REQUIRE(row.ok());
  return *std::move(row);
}

std::vector<ConversationSample> Samples(const ChatRow& row, const ChatTemplate& chat_template,
                                        const ConversationOptions& options = {}) {
  auto samples = ConversationSamples(row, chat_template, GreedyTokenizer(), options, {"f.jsonl", 3});
  INFO(std::string(samples.status().message()));
  REQUIRE(samples.ok());
  return *std::move(samples);
}

std::unique_ptr<ChatTemplate> Template(const std::string& source) {
  auto parsed = ParseChatTemplate(source, "test.jinja", GreedyTokenizer().special());
  REQUIRE(parsed.ok());
  return *std::move(parsed);
}

// The sample's text with what is trained in [ ].
std::string Show(const ConversationSample& sample) {
  const GreedyTokenizer tokenizer;
  std::string text;
  uint8_t trained = 0;
  for (size_t i = 0; i < sample.sample.ids.size(); ++i) {
    if (sample.sample.trained[i] != trained) text += trained ? "]" : "[";
    trained = sample.sample.trained[i];
    text += tokenizer.IdToToken(sample.sample.ids[i]);
  }
  return trained ? text + "]" : text;
}

std::vector<std::string> Show(const std::vector<ConversationSample>& samples) {
  std::vector<std::string> shown;
  for (const ConversationSample& sample : samples) shown.push_back(Show(sample));
  return shown;
}

using Texts = std::vector<std::string>;

}  // namespace
}  // namespace ftune

template <>
struct doctest::StringMaker<std::vector<std::string>> {
  static String convert(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) out += text + "\n";
    return out.c_str();
  }
};

namespace ftune {
namespace {

std::string Describe(const std::vector<RoleTokens>& roles) {
  std::string text;
  for (const RoleTokens& role : roles) {
    text += role.role + " " + std::to_string(role.trained) + "/" + std::to_string(role.tokens) + " ";
  }
  return text;
}

// Thinking is shown in the last turn only.
constexpr char kThinking[] =
    "{% for m in messages %}{{ m.role[0] }}:{% if m.thinking and loop.last %}({{ m.thinking }}){% endif %}"
    "{{ m.content }};{% endfor %}{{ 'a:' if add_generation_prompt }}";
constexpr char kThoughts[] =
    R"({"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2", "thinking": "x"},
    {"role": "user", "content": "3"}, {"role": "assistant", "content": "4"},
    {"role": "user", "content": "5"}, {"role": "assistant", "content": "6", "thinking": "y"}]})";

constexpr char kPlain[] =
    R"({"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"},
    {"role": "user", "content": "3"}, {"role": "assistant", "content": "4"},
    {"role": "user", "content": "5"}, {"role": "assistant", "content": "6"}]})";

std::vector<int32_t> EndTokens(const ConversationSample& sample) {
  std::vector<int32_t> ids;
  for (const int64_t end : sample.turn_ends) ids.push_back(sample.sample.ids.at(static_cast<size_t>(end)));
  return ids;
}

TEST_CASE("tokens are counted by the role in whose turn they stand") {
  const std::string row =
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Yes"},
          {"role": "user", "content": ""}, {"role": "assistant", "content": "No", "weight": 0}]})";
  // A turn: its role, its content, and <|im_start|>, <|im_end|> and two line ends.
  const auto samples = Samples(Row(row), ChatMl());
  REQUIRE(samples.size() == 1);
  CHECK(Describe(samples[0].roles) == "user 0/18 assistant 4/31 ");
  CHECK(samples[0].sample.size() == 49);
  CHECK(samples[0].sample.trained_tokens() == 4);
  // The very first token is never predicted; the excluded turn's words and end are not either.
  CHECK(Describe(Samples(Row(row), ChatMl(), {.train_on_inputs = true})[0].roles) ==
        "user 17/18 assistant 28/31 ");
  // What the template writes around the turns.
  const auto around = Template("{{ 'abc' }}{% for m in messages %}{{ m.content }};{% endfor %}{{ 'de' }}");
  CHECK(
      Describe(Samples(Row(R"({"messages": [{"role": "assistant", "content": "x"}]})"), *around)[0].roles) ==
      " 0/5 assistant 2/2 ");

  std::vector<RoleTokens> sum = samples[0].roles;
  AddRoleTokens({{"tool", 5, 1}, {"user", 2, 1}}, sum);
  CHECK(Describe(sum) == "user 1/20 assistant 4/31 tool 1/5 ");
}

TEST_CASE("turns that the template later writes otherwise are learned as they are generated") {
  const auto thinking = Template(kThinking);
  // The first turn loses its thought in the whole; the second, which has none, is the same there.
  CHECK(Show(Samples(Row(kThoughts), *thinking)) ==
        Texts{"u:1;a:[(x)2;]", "u:1;a:2;u:3;a:[4;]u:5;a:[(y)6;]"});
  CHECK(Show(Samples(Row(kThoughts), *thinking, {.split_turns = SplitTurns::kAlways})) ==
        Texts{"u:1;a:[(x)2;]", "u:1;a:2;u:3;a:[4;]", "u:1;a:2;u:3;a:4;u:5;a:[(y)6;]"});
  CHECK(Show(Samples(Row(kThoughts, TrainTurns::kLast), *thinking)) ==
        Texts{"u:1;a:2;u:3;a:4;u:5;a:[(y)6;]"});
  // With the inputs: the text as it stands.
  CHECK(Show(Samples(Row(kThoughts), *thinking, {.train_on_inputs = true})) ==
        Texts{"[u:1;a:2;u:3;a:4;u:5;a:(y)6;]"});

  const auto refused = ConversationSamples(Row(kThoughts), *thinking, GreedyTokenizer(),
                                           {.split_turns = SplitTurns::kNever}, {"f.jsonl", 3});
  REQUIRE_FALSE(refused.ok());
  const std::string message(refused.status().message());
  INFO(message);
  CHECK(message.starts_with("f.jsonl:3: error: messages[1]: "));
  CHECK(message.find("once the conversation goes on: \"u:1;a:2;u:3") != std::string::npos);
  CHECK(message.find("for \"u:1;a:(x)2;\"") != std::string::npos);
  CHECK(message.find("data.split_turns") != std::string::npos);
  // Where nothing changes, nothing is refused.
  CHECK(Show(Samples(Row(kPlain), ChatMl(), {.split_turns = SplitTurns::kNever})).size() == 1);
}

TEST_CASE("the last trained turn may stand before the end of the conversation") {
  const std::string row =
      R"({"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2", "thinking": "x"},
          {"role": "user", "content": "3"}]})";
  CHECK(Show(Samples(Row(row), *Template(kThinking))) == Texts{"u:1;a:[(x)2;]"});
  // A turn that the row excludes is context, as it stands there, and is not worth a sample.
  const std::string excluded =
      R"({"messages": [{"role": "user", "content": "1"},
          {"role": "assistant", "content": "2", "thinking": "x", "weight": 0},
          {"role": "user", "content": "3"}, {"role": "assistant", "content": "4", "thinking": "y"}]})";
  CHECK(Show(Samples(Row(excluded), *Template(kThinking))) == Texts{"u:1;a:2;u:3;a:[(y)4;]"});
  CHECK(Show(Samples(Row(excluded), *Template(kThinking), {.split_turns = SplitTurns::kAlways})) ==
        Texts{"u:1;a:2;u:3;a:[(y)4;]"});
}

TEST_CASE("a system message that moves to the last question, and a last turn with another end") {
  const auto moves = Template(
      "{% set s = messages[0].content %}{% for m in messages[1:] %}{% if m.role == 'user' %}"
      "{{ '[' }}{% if m == (messages|selectattr('role', 'equalto', 'user')|list)[-1] %}{{ s }}{% endif %}"
      "{{ m.content + ']' }}{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}");
  const std::string row =
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "1"},
          {"role": "assistant", "content": "2"}, {"role": "user", "content": "3"},
          {"role": "assistant", "content": "4"}]})";
  CHECK(Show(Samples(Row(row), *moves)) == Texts{"[S1][2</s>]", "[1]2</s>[S3][4</s>]"});
  const auto ends = Template(
      "{% for m in messages %}{{ m.role[0] + ':' + m.content }}{{ ';' if not loop.last else eos_token }}"
      "{% endfor %}{{ 'a:' if add_generation_prompt }}");
  CHECK(Show(Samples(Row(row), *ends)) == Texts{"s:S;u:1;a:[2</s>]", "s:S;u:1;a:2;u:3;a:[4</s>]"});
}

TEST_CASE("a conversation that cannot end at a turn keeps it where it is") {
  const auto picky = Template(
      "{% if messages|length < 3 and not add_generation_prompt %}{{ raise_exception('too short') }}{% endif "
      "%}{% for m in messages %}"
      "{{ m.role[0] + ':' + m.content + ';' }}{% endfor %}{{ 'a:' if add_generation_prompt }}");
  const std::string row =
      R"({"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"},
          {"role": "assistant", "content": "3"}]})";
  CHECK(Show(Samples(Row(row), *picky)) == Texts{"u:1;a:[2;]a:[3;]"});
  const auto refused = ConversationSamples(Row(row), *picky, GreedyTokenizer(),
                                           {.split_turns = SplitTurns::kAlways}, {"f.jsonl", 3});
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string(refused.status().message()).find("too short") != std::string::npos);
}

TEST_CASE("any role's turns can be learned, by their flags") {
  ChatRow row = Row(
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "1"},
          {"role": "assistant", "content": "2"}, {"role": "tool", "content": "3"},
          {"role": "assistant", "content": "4"}]})");
  row.trained = {0, 1, 0, 1, 1};
  CHECK(Show(Samples(row, *Template(kThinking))) == Texts{"s:S;u:[1;]a:2;t:[3;]a:[4;]"});
  CHECK(Show(Samples(row, *Template(kThinking), {.split_turns = SplitTurns::kAlways})) ==
        Texts{"s:S;u:[1;]a:2;t:[3;]a:[4;]"});
  row.trained = {0, 1, 1, 1, 0};
  CHECK(Show(Samples(row, *Template(kThinking), {.split_turns = SplitTurns::kAlways})) ==
        Texts{"s:S;u:[1;]a:[2;]", "s:S;u:1;a:2;t:[3;]a:4;"});
  row.trained = {1, 0, 0, 0, 0};
  CHECK(Show(Samples(row, *Template(kThinking))) == Texts{"s:[S;]u:1;a:2;t:3;a:4;"});
  // Inside another's turn: the words alone.
  const auto inside = Template(
      "{% for m in messages[1:] %}{{ m.role[0] + ':' }}{% if loop.first %}{{ '<' + messages[0].content + '>' "
      "}}"
      "{% endif %}{{ m.content + ';' }}{% endfor %}");
  row.trained = {1, 1, 0, 0, 1};
  CHECK(Show(Samples(row, *inside)) == Texts{"u:<[S]>[1;]a:2;t:3;a:[4;]"});
}

std::string Refusal(const std::string& row, const ChatTemplate& chat_template,
                    const ConversationOptions& options = {}) {
  const auto samples =
      ConversationSamples(Row(row), chat_template, GreedyTokenizer(), options, {"f.jsonl", 3});
  return samples.ok() ? "" : std::string(samples.status().message());
}

TEST_CASE("reasoning and tools that the template does not write are refused") {
  const ConversationOptions inputs = {.train_on_inputs = true};
  const std::string ignored = "f.jsonl:3: error: messages[1].thinking: the chat template does not write";
  CHECK(Refusal(kThoughts, ChatMl()).starts_with(ignored));
  CHECK(Refusal(kThoughts, ChatMl(), inputs).starts_with("f.jsonl:3: error: messages[5].thinking"));
  const auto thinking = Template(kThinking);
  CHECK(Refusal(kThoughts, *thinking) == "");
  CHECK(Refusal(kThoughts, *thinking, inputs) == "");
  const auto answer = [](const std::string& more, const std::string& beside = "") {
    return R"({"messages": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2")" + more +
           "}]" + beside + "}";
  };
  CHECK(Refusal(answer(R"(, "reasoning_content": "x")"), *thinking) == "");
  CHECK(Refusal(answer(R"(, "reasoning_content": "2")"), ChatMl()).find("reasoning_content") !=
        std::string::npos);
  CHECK(Refusal(answer(R"(, "reasoning_content": " \n")"), ChatMl()) == "");
  // What is not learned may be left out.
  CHECK(Refusal(answer(R"(, "reasoning_content": "x", "weight": 0)"), ChatMl()) == "");

  const std::string tools =
      answer("", R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}])");
  CHECK(Refusal(tools, ChatMl()).starts_with("f.jsonl:3: error: tools: the chat template does not write"));
  CHECK(Refusal(tools, ChatMl(), inputs).starts_with("f.jsonl:3: error: tools: "));
  CHECK(Refusal(tools, *Template("{{ tools | tojson if tools }}" + std::string(kThinking))) == "");
  CHECK(Refusal(answer("", R"(, "tools": [])"), ChatMl()) == "");
}

TEST_CASE("the ends of what is learned, and one BOS") {
  const GreedyTokenizer tokenizer;
  const auto samples = Samples(Row(kPlain), ChatMl());
  CHECK(EndTokens(samples.at(0)) == std::vector<int32_t>(3, *tokenizer.TokenToId("<|im_end|>")));
  CHECK(EndTokens(Samples(Row(kThoughts), *Template(kThinking)).at(1)) == std::vector<int32_t>(2, ';'));

  const auto twice = Template(
      "{{ bos_token }}{% for m in messages %}{{ bos_token if loop.first }}{{ m.content + eos_token }}{% "
      "endfor %}");
  const auto doubled = Samples(Row(R"({"messages": [{"role": "assistant", "content": "x"}]})"), *twice);
  CHECK(Show(doubled) == Texts{"<s>[x</s>]"});
  CHECK(doubled[0].doubled_bos);
  CHECK_FALSE(samples[0].doubled_bos);
}

}  // namespace
}  // namespace ftune
