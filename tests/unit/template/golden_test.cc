// Renderings and marked spans equal transformers', to the byte. Fixtures: tests/golden/template_golden.py.
#include <cstdint>
#include <map>

#include "tests/unit/template/template_test_util.h"

namespace ftune {
namespace {

using test::Parse;
using test::ReadFixture;

std::string HashText(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  char hex[17];
  std::snprintf(hex, sizeof(hex), "%016llx", static_cast<unsigned long long>(hash));
  return hex;
}

// A fixture's case is an error, or a text (whole, or its size and hash).
void CheckAgainst(const OrderedJson& expected, const absl::StatusOr<std::string>& rendered) {
  if (expected.contains("error")) {
    CHECK_FALSE(rendered.ok());
    return;
  }
  REQUIRE_MESSAGE(rendered.ok(), rendered.status().message());
  if (expected.contains("text")) {
    CHECK(*rendered == expected["text"].get<std::string>());
  } else {
    CHECK(rendered->size() == expected["bytes"].get<size_t>());
    CHECK(HashText(*rendered) == expected["hash"].get<std::string>());
  }
}

// transformers marks what a {% generation %} block writes; ours leave out the blanks after the end-of-turn
// token, and blocks of nothing else.
std::vector<TextSpan> WithoutTrailingBlanks(const std::string& text, const OrderedJson& marked) {
  std::vector<TextSpan> spans;
  for (const OrderedJson& pair : marked) {
    TextSpan span{pair[0].get<int64_t>(), pair[1].get<int64_t>()};
    while (span.end > span.begin &&
           std::string_view(" \n").find(text[span.end - 1]) != std::string_view::npos)
      --span.end;
    if (span.end > span.begin) spans.push_back(span);
  }
  return spans;
}

void CheckMarks(const ChatTemplate& chat_template, const ChatInput& input, const OrderedJson& marked) {
  const absl::StatusOr<RenderedChat> chat = chat_template.RenderWithSpans(input, AssistantMessages(input));
  if (!chat.ok()) {
    // Refused where nothing is marked, or where the template leaves tool calls out.
    const bool calls_left_out =
        std::string(chat.status().message()).find("write this message's tool calls") != std::string::npos;
    CHECK_MESSAGE((marked.empty() || calls_left_out), chat.status().message());
    return;
  }
  std::vector<TextSpan> found;
  for (const auto& span : chat->spans) found.push_back(span.bytes);
  CHECK(found == WithoutTrailingBlanks(chat->text, marked));
}

// Renders every case of a fixture with the template that `source_of` gives for its name.
template <typename SourceOf>
void CheckConversations(const OrderedJson& cases, SourceOf source_of) {
  const OrderedJson fixture = ReadFixture("conversations.json")["head"];
  std::map<std::string, std::unique_ptr<ChatTemplate>> templates;
  for (const OrderedJson& expected : cases) {
    const auto name = expected["template"].get<std::string>();
    const OrderedJson& conversation = fixture["conversations"][expected["conversation"].get<std::string>()];
    CAPTURE(name);
    CAPTURE(expected["conversation"].get<std::string>());
    CAPTURE(expected["prompt"].get<bool>());
    if (!templates.contains(name)) {
      auto parsed = Parse(source_of(name));
      REQUIRE_MESSAGE(parsed.ok(), parsed.status().message());
      templates[name] = *std::move(parsed);
    }
    ChatInput input;
    input.messages = conversation["messages"];
    if (conversation.contains("tools")) input.tools = conversation["tools"];
    input.extra = fixture["options"][expected["options"].get<std::string>()];
    input.add_generation_prompt = expected["prompt"].get<bool>();
    CheckAgainst(expected, templates[name]->Render(input));
    // Keeping track of provenance changes nothing.
    if (const auto chat = templates[name]->RenderWithSpans(input, AssistantMessages(input)); chat.ok())
      CheckAgainst(expected, chat->text);
    if (expected.contains("marked")) CheckMarks(*templates[name], input, expected["marked"]);
  }
}

TEST_CASE("golden: the language, piece by piece") {
  const OrderedJson fixture = ReadFixture("snippets.json");
  REQUIRE(fixture["cases"].size() > 700);
  ChatInput input = test::Conversation({{{"role", "user"}, {"content", "hi"}}});
  input.extra = fixture["head"]["variables"];
  for (const OrderedJson& expected : fixture["cases"]) {
    const auto source = expected["template"].get<std::string>();
    CAPTURE(source);
    const auto parsed = Parse(source);
    CheckAgainst(expected,
                 parsed.ok() ? (*parsed)->Render(input) : absl::StatusOr<std::string>(parsed.status()));
  }
}

TEST_CASE("golden: our own templates") {
  const OrderedJson fixture = ReadFixture("own.json");
  REQUIRE(fixture["cases"].size() > 200);
  CheckConversations(fixture["cases"], test::OwnTemplate);
}

TEST_CASE("golden: real models' templates") {
  const OrderedJson fixture = ReadFixture("material.json");
  REQUIRE(fixture["cases"].size() > 1000);
  if (!test::HasMaterial(static_cast<int>(fixture["cases"].size()))) return;
  CheckConversations(fixture["cases"],
                     [](const std::string& name) { return test::ReadFile(test::MaterialDir() / name); });
}

TEST_CASE("golden: huggingface.js's cases") {
  const OrderedJson fixture = ReadFixture("vectors.json");
  if (!test::HasMaterial(static_cast<int>(fixture["cases"].size()))) return;
  const OrderedJson vectors =
      OrderedJson::parse(test::ReadFile(test::MaterialDir() / "vectors" / "hf_jinja_e2e.json"))["cases"];
  REQUIRE(vectors.size() == fixture["cases"].size());
  for (const OrderedJson& expected : fixture["cases"]) {
    const OrderedJson& vector = vectors[expected["index"].get<size_t>()];
    CAPTURE(vector["name"].get<std::string>());
    REQUIRE(vector["name"] == expected["name"]);
    ChatInput input;
    input.extra = vector["data"];
    input.messages = input.extra["messages"];
    if (input.extra.contains("tools")) input.tools = input.extra["tools"];
    input.add_generation_prompt = input.extra.value("add_generation_prompt", false);
    for (const char* key : {"messages", "tools", "add_generation_prompt"}) input.extra.erase(key);
    const auto parsed = Parse(vector["template"].get<std::string>(), SpecialTokens{});
    REQUIRE_MESSAGE(parsed.ok(), parsed.status().message());
    CheckAgainst(expected, (*parsed)->Render(input));
  }
}

}  // namespace
}  // namespace ftune
