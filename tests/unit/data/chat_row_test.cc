#include "data/source/chat_row.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace ftune {
namespace {

absl::StatusOr<ChatRow> Read(const char* json, TrainTurns turns = TrainTurns::kAll) {
  const OrderedJson row = OrderedJson::parse(json);
  const RowPlace place{"chats.jsonl", 7};
  const RowMapping mapping;
  return ReadChatRow(RowFields(row, place, mapping), {.train_on_turns = turns});
}

void CheckRefused(const char* json, const std::string& key, const std::string& text) {
  const auto chat = Read(json);
  REQUIRE_FALSE(chat.ok());
  const std::string message(chat.status().message());
  INFO(message);
  CHECK(message.starts_with("chats.jsonl:7: error: "));
  CHECK(ExitCodeOf(chat.status()) == 4);
  CHECK(DetailOf(chat.status())->key == key);
  CHECK(message.find(text) != std::string::npos);
}

TEST_CASE("a plain conversation passes as it is") {
  const auto chat =
      Read(R"({"id": 3, "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
                            {"role": "assistant", "name": "x", "content": "a"}]})");
  REQUIRE(chat.ok());
  CHECK(chat->input.messages.dump() == R"([{"role":"system","content":"s"},{"role":"user","content":"u"},)"
                                       R"({"role":"assistant","name":"x","content":"a"}])");
  CHECK(chat->input.tools.is_null());
  CHECK(chat->trained == std::vector<uint8_t>{0, 0, 1});
  CHECK_FALSE(chat->has_untrained_flag);
}

TEST_CASE("content parts are joined, null becomes empty where the assistant calls tools") {
  const auto chat = Read(R"({"messages": [
      {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
      {"role": "assistant", "content": null, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": [2]}"}},
        {"id": "2", "type": "function", "function": {"name": "g", "arguments": ""}},
        {"id": "3", "type": "function", "function": {"name": "h", "arguments": {"q": 1}}}]},
      {"role": "tool", "content": "1", "tool_call_id": "1"},
      {"role": "assistant", "content": "done", "tool_calls": null}],
    "tools": [{"type": "function", "function": {"name": "f"}}], "chat_template_kwargs": {"enable_thinking": false}})");
  REQUIRE(chat.ok());
  const OrderedJson& messages = chat->input.messages;
  CHECK(messages[0]["content"] == "ab");
  CHECK(messages[1]["content"] == "");
  CHECK(messages[1]["tool_calls"][0]["function"].dump() == R"({"name":"f","arguments":{"z":1,"a":[2]}})");
  CHECK(messages[1]["tool_calls"][1]["function"]["arguments"].dump() == "{}");
  CHECK(messages[1]["tool_calls"][2]["function"]["arguments"].dump() == R"({"q":1})");
  CHECK_FALSE(messages[3].contains("tool_calls"));
  CHECK(chat->input.tools.size() == 1);
  CHECK(chat->input.extra["enable_thinking"] == false);
  CHECK(chat->trained == std::vector<uint8_t>{0, 1, 0, 1});
}

TEST_CASE("flags and turns choose what is trained") {
  const char* row = R"({"messages": [{"role": "user", "content": "u", "train": false},
      {"role": "assistant", "content": "a", "weight": 0}, {"role": "user", "content": "u"},
      {"role": "assistant", "content": "b", "train": true}, {"role": "user", "content": "u"},
      {"role": "assistant", "content": "c", "weight": 1}, {"role": "user", "content": "u"}]})";
  const auto all = Read(row);
  REQUIRE(all.ok());
  CHECK(all->trained == std::vector<uint8_t>{0, 0, 0, 1, 0, 1, 0});
  CHECK(all->has_untrained_flag);
  CHECK(all->input.messages.dump().find("weight") == std::string::npos);
  CHECK(all->input.messages.dump().find("train") == std::string::npos);
  const auto last = Read(row, TrainTurns::kLast);
  REQUIRE(last.ok());
  CHECK(last->trained == std::vector<uint8_t>{0, 0, 0, 0, 0, 1, 0});
  const auto none = Read(R"({"messages": [{"role": "assistant", "content": "a"},
                                          {"role": "assistant", "content": "b", "weight": 0}]})",
                         TrainTurns::kLast);
  REQUIRE(none.ok());
  CHECK(none->trained == std::vector<uint8_t>{0, 0});
}

TEST_CASE("rows of the wrong shape") {
  CheckRefused(R"({"id": 1, "chat": []})", "", "the keys id, chat");
  CheckRefused(R"({"messages": "hi"})", "messages", "expected a list");
  CheckRefused(R"({"messages": []})", "messages", "no message");
  CheckRefused(R"({"messages": ["hi"]})", "messages[0]", "an object with role and content");
  CheckRefused(R"({"messages": [{"content": "x", "by": "gpt"}]})", "messages[0]", "the keys content, by");
  CheckRefused(R"({"messages": [{"role": 1, "content": "x"}]})", "messages[0].role", "expected a string");
  CheckRefused(R"({"messages": [{"role": "user"}]})", "messages[0].content", "no content");
  CheckRefused(R"({"messages": [{"role": "user", "content": null}]})", "messages[0].content", "found null");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": null}]})", "messages[0].content",
               "tool_calls");
  CheckRefused(R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content", "found 5");
  CheckRefused(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
               "messages[0].content[0]", "only parts of text");
  CheckRefused(R"({"messages": [{"role": "user", "content": ["x"]}]})", "messages[0].content[0]",
               "only parts of text");
  CheckRefused(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
      {"type": "text", "text": {"value": "b"}}]}]})",
               "messages[0].content[1]", "only parts of text");
  CheckRefused(R"({"messages": [{"role": "user", "content": "x"}, {"role": "tool", "content": "y"}]})",
               "messages", "the roles user, tool");
  CheckRefused(R"({"messages": [{"role": "narrator", "content": "x"}]})", "messages[0].role",
               "unknown role; found \"narrator\", expected one of system, developer, user, assistant, tool");
  CheckRefused(R"({"messages": [{"role": "narrator", "content": "x"}]})", "messages[0].role",
               "roles: {narrator: user}");
  CheckRefused(R"({"messages": [{"role": "user", "content": "a\u0000b"}]})", "messages[0].content",
               "a NUL character at byte 2");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x", "weight": 0.5}]})",
               "messages[0].weight", "0 or 1");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x", "train": "no"}]})", "messages[0].train",
               "0 or 1");
  CheckRefused(R"({"messages": [{"role": "user", "content": "x", "train": true}]})", "messages[0]",
               "only messages of a role to train");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "", "tool_calls": {"a": 1}}]})",
               "messages[0].tool_calls", "expected a list");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "", "tool_calls": ["f"]}]})",
               "messages[0].tool_calls", "objects with function");
  CheckRefused(
      R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {"x": 1}}]}]})",
      "messages[0].tool_calls", "no function name");
  CheckRefused(
      R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]})",
      "messages[0].tool_calls", "not a JSON object");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x"}], "tools": "f"})", "tools",
               "a list of functions");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x"}], "tools": ["f"]})", "tools[0]",
               "an object that describes a function");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x"}], "functions": [], "tools": []})",
               "functions", "twice");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x"}], "chat_template_kwargs": 1})",
               "chat_template_kwargs", "an object");
}

absl::StatusOr<ChatRow> ReadMapped(const char* json, const RowMapping& mapping,
                                   const ChatRowOptions& options = {}) {
  const OrderedJson row = OrderedJson::parse(json);
  const RowPlace place{"chats.jsonl", 7};
  return ReadChatRow(RowFields(row, place, mapping), options);
}

TEST_CASE("ShareGPT: its names of keys and roles, its calls and results of functions, its columns") {
  const auto chat = Read(R"({"system": "Be kind.", "tools": "[{\"name\": \"f\", \"parameters\": {}}]",
      "conversations": [{"from": "human", "value": "u"},
      {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
      {"from": "observation", "value": "2"}, {"from": "GPT", "value": "a", "weight": 0},
      {"role": "user", "content": "v"}, {"from": "chatgpt", "value": "b"}]})");
  REQUIRE_MESSAGE(chat.ok(), chat.status().message());
  CHECK(
      chat->input.messages.dump() ==
      R"([{"role":"system","content":"Be kind."},{"role":"user","content":"u"},)"
      R"({"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1}}}]},)"
      R"({"role":"tool","content":"2"},{"role":"assistant","content":"a"},{"role":"user","content":"v"},)"
      R"({"role":"assistant","content":"b"}])");
  CHECK(chat->input.tools.dump() == R"([{"type":"function","function":{"name":"f","parameters":{}}}])");
  CHECK(chat->trained == std::vector<uint8_t>{0, 0, 1, 0, 0, 0, 1});
  CheckRefused(R"({"conversations": [{"from": "function_call", "value": "f 1"}]})", "conversations[0].value",
               "a function call is not JSON");
  CheckRefused(R"({"conversations": [{"from": "function_call", "value": "[1]"}]})", "conversations[0].value",
               "found 1");
  CheckRefused(R"({"system": "a", "conversations": [{"from": "system", "value": "b"}]})", "system",
               "two system");
}

TEST_CASE("the system column before the turns leaves the last of them the last") {
  const auto chat = Read(R"({"system": "s", "messages": [{"role": "user", "content": "u"},
      {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]})",
                         TrainTurns::kLast);
  REQUIRE(chat.ok());
  CHECK(chat->trained == std::vector<uint8_t>{0, 0, 0, 1});
}

TEST_CASE("OpenAI's older functions and parts of text by other names") {
  const auto chat = Read(R"({"functions": [{"name": "f"}], "messages": [
      {"role": "user", "content": [{"type": "input_text", "text": "u"}]},
      {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
      {"role": "function", "name": "f", "content": "1"},
      {"role": "assistant", "content": [{"type": "output_text", "text": "a"}]}]})");
  REQUIRE_MESSAGE(chat.ok(), chat.status().message());
  CHECK(chat->input.messages.dump() ==
        R"([{"role":"user","content":"u"},{"role":"assistant","content":"",)"
        R"("tool_calls":[{"type":"function","function":{"name":"f","arguments":{}}}]},)"
        R"({"role":"tool","name":"f","content":"1"},{"role":"assistant","content":"a"}])");
  CHECK(chat->input.tools.dump() == R"([{"type":"function","function":{"name":"f"}}])");
}

TEST_CASE("columns and roles are mapped; errors use the row's names") {
  const RowMapping mapping = {
      .columns = {{"messages", "chat"}, {"role", "who"}, {"content", "says"}, {"train", "learn"}},
      .roles = {{"boss", "user"}, {"human", "assistant"}, {"critic", "critic"}}};
  const auto chat = ReadMapped(R"({"chat": [{"who": "boss", "says": "u"}, {"who": "human", "says": "a"},
      {"who": "critic", "says": "c", "role": "x"}, {"who": "human", "says": "b", "learn": false}]})",
                               mapping);
  REQUIRE_MESSAGE(chat.ok(), chat.status().message());
  CHECK(chat->input.messages[0].dump() == R"({"role":"user","content":"u"})");
  CHECK(chat->input.messages[1].dump() == R"({"role":"assistant","content":"a"})");
  CHECK(chat->input.messages[2]["role"] == "critic");
  CHECK(chat->trained == std::vector<uint8_t>{0, 1, 0, 0});
  const auto refused = ReadMapped(R"({"chat": [{"who": "x", "says": "u"}]})", mapping);
  CHECK(DetailOf(refused.status())->key == "chat[0].who");
}

TEST_CASE("other roles to train than the assistant's") {
  const char* row = R"({"messages": [{"role": "user", "content": "u", "weight": 1},
      {"role": "assistant", "content": "a"}, {"role": "tool", "content": "t"}, {"role": "user", "content": "v"}]})";
  const auto chat = ReadMapped(row, {}, {.roles_to_train = {"user", "tool"}});
  REQUIRE_MESSAGE(chat.ok(), chat.status().message());
  CHECK(chat->trained == std::vector<uint8_t>{1, 0, 1, 1});
  const auto none =
      ReadMapped(R"({"messages": [{"role": "user", "content": "u"}]})", {}, {.roles_to_train = {"tool"}});
  REQUIRE_FALSE(none.ok());
  CHECK(std::string(none.status().message()).find("a message with the role tool") != std::string::npos);
}

}  // namespace
}  // namespace ftune
