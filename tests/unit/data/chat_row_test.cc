#include "data/source/chat_row.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace ftune {
namespace {

absl::StatusOr<ChatRow> Read(const char* json, TrainTurns turns = TrainTurns::kAll) {
  return ReadChatRow(OrderedJson::parse(json), {"chats.jsonl", 7}, turns);
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
  CheckRefused(R"({"messages": "hi"})", "messages", "a list of messages");
  CheckRefused(R"({"messages": []})", "messages", "no message");
  CheckRefused(R"({"messages": ["hi"]})", "messages[0]", "no role");
  CheckRefused(R"({"messages": [{"content": "x", "from": "gpt"}]})", "messages[0]", "the keys content, from");
  CheckRefused(R"({"messages": [{"role": 1, "content": "x"}]})", "messages[0].role", "expected a string");
  CheckRefused(R"({"messages": [{"role": "user"}]})", "messages[0].content", "no content");
  CheckRefused(R"({"messages": [{"role": "user", "content": null}]})", "messages[0].content", "found null");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": null}]})", "messages[0].content",
               "tool_calls");
  CheckRefused(R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content", "found 5");
  CheckRefused(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
               "messages[0].content", "only parts of type text");
  CheckRefused(R"({"messages": [{"role": "user", "content": ["x"]}]})", "messages[0].content",
               "only parts of type text");
  CheckRefused(R"({"messages": [{"role": "human", "content": "x"}, {"role": "gpt", "content": "y"}]})",
               "messages", "the roles human, gpt");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x", "weight": 0.5}]})",
               "messages[0].weight", "0 or 1");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x", "train": "no"}]})", "messages[0].train",
               "0 or 1");
  CheckRefused(R"({"messages": [{"role": "user", "content": "x", "train": true}]})", "messages[0].train",
               "only assistant messages");
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
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x"}], "tools": "[]"})", "tools",
               "expected a list");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x"}], "functions": []})", "functions",
               "tools");
  CheckRefused(R"({"messages": [{"role": "assistant", "content": "x"}], "chat_template_kwargs": 1})",
               "chat_template_kwargs", "an object");
}

}  // namespace
}  // namespace ftune
