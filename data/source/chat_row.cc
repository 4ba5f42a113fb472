#include "data/source/chat_row.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kAssistant[] = "assistant";

// One message of a row; errors say which.
class MessageReader {
 public:
  MessageReader(const RowPlace& place, size_t index, const OrderedJson& message)
      : place_(place), key_(StrCat("messages[", index, "]")), message_(message) {}

  absl::StatusOr<OrderedJson> Read() {
    if (!message_.is_object() || !message_.contains("role")) {
      return Error("", {.message = "a message has no role",
                        .found = DescribeKeys(message_),
                        .expected = "role and content"});
    }
    const OrderedJson& role = message_.at("role");
    if (!role.is_string()) return Error(".role", {.found = DescribeValue(role), .expected = "a string"});
    is_assistant_ = role.get_ref<const std::string&>() == kAssistant;
    FTUNE_ASSIGN_OR_RETURN(const std::string content, Content());
    FTUNE_RETURN_IF_ERROR(ReadFlag("weight"));
    FTUNE_RETURN_IF_ERROR(ReadFlag("train"));

    OrderedJson result = OrderedJson::object();
    for (const auto& item : message_.items()) {
      // Tables written row by row fill absent keys with null; templates ask whether a key is there.
      if (item.value().is_null() || item.key() == "weight" || item.key() == "train") continue;
      result[item.key()] = item.value();
    }
    result["content"] = content;
    if (HasToolCalls()) FTUNE_RETURN_IF_ERROR(ParseArguments(result["tool_calls"]));
    return result;
  }

  bool trained() const { return is_assistant_ && trained_; }
  bool is_assistant() const { return is_assistant_; }

 private:
  absl::Status Error(const std::string& key, RowProblem problem) const {
    problem.key = key_ + key;
    return RowError(place_, std::move(problem));
  }

  bool HasToolCalls() const {
    const auto calls = message_.find("tool_calls");
    return calls != message_.end() && !calls->is_null() && !calls->empty();
  }

  absl::StatusOr<std::string> Content() const {
    const auto content = message_.find("content");
    if (content == message_.end() || content->is_null()) {
      // OpenAI leaves the content out where the assistant only calls tools.
      if (is_assistant_ && HasToolCalls()) return std::string();
      return Error(".content", {.message = content == message_.end() ? "a message has no content" : "",
                                .found = content == message_.end() ? DescribeKeys(message_) : "null",
                                .expected = is_assistant_ ? "content or tool_calls"
                                                          : "a string or a list of text parts"});
    }
    if (content->is_string()) return content->get<std::string>();
    if (!content->is_array()) {
      return Error(".content",
                   {.found = DescribeValue(*content), .expected = "a string or a list of text parts"});
    }
    std::string text;
    for (const OrderedJson& part : *content) {
      const auto type = part.find("type");
      const auto words = part.find("text");
      const bool is_text = part.is_object() && type != part.end() && *type == "text" && words != part.end() &&
                           words->is_string();
      if (!is_text) {
        return Error(".content", {.message = "only parts of type text can be trained on",
                                  .found = DescribeValue(part),
                                  .expected = R"({"type": "text", "text": "…"})"});
      }
      text += words->get_ref<const std::string&>();
    }
    return text;
  }

  absl::Status ReadFlag(const char* name) {
    const auto flag = message_.find(name);
    if (flag == message_.end() || flag->is_null()) return absl::OkStatus();
    const bool yes = *flag == true || *flag == 1;
    const bool no = *flag == false || *flag == 0;
    if (!yes && !no) {
      return Error(StrCat(".", name), {.found = DescribeValue(*flag), .expected = "0 or 1"});
    }
    if (yes && !is_assistant_) {
      return Error(StrCat(".", name),
                   {.message = "only assistant messages can be chosen to be trained",
                    .found = StrCat("role ", DescribeValue(message_.at("role"))),
                    .hint = "remove the flag, or set data.train_on_inputs to train on everything"});
    }
    if (no) trained_ = false;
    return absl::OkStatus();
  }

  // OpenAI writes the arguments of a call as JSON text; templates print them with `tojson`, which would quote
  // them a second time.
  absl::Status ParseArguments(OrderedJson& calls) const {
    if (!calls.is_array()) return Error(".tool_calls", {.found = DescribeValue(calls), .expected = "a list"});
    for (OrderedJson& call : calls) {
      if (!call.is_object()) {
        return Error(".tool_calls", {.found = DescribeValue(call), .expected = "objects with function"});
      }
      const auto function = call.find("function");
      OrderedJson& owner = function != call.end() && function->is_object() ? *function : call;
      const auto name = owner.find("name");
      if (name == owner.end() || !name->is_string()) {
        return Error(".tool_calls", {.message = "a call has no function name", .found = DescribeKeys(owner)});
      }
      const auto arguments = owner.find("arguments");
      if (arguments == owner.end() || !arguments->is_string()) continue;
      const std::string& text = arguments->get_ref<const std::string&>();
      std::optional<OrderedJson> parsed = text.empty() ? OrderedJson::object() : ParseOrderedJson(text);
      if (!parsed || !parsed->is_object()) {
        return Error(".tool_calls", {.message = "the arguments of a call are not a JSON object",
                                     .found = DescribeValue(*arguments)});
      }
      *arguments = *std::move(parsed);
    }
    return absl::OkStatus();
  }

  const RowPlace& place_;
  std::string key_;
  const OrderedJson& message_;
  bool is_assistant_ = false;
  bool trained_ = true;
};

absl::Status ReadExtras(const OrderedJson& row, const RowPlace& place, ChatInput& input) {
  if (row.contains("functions")) {
    return RowError(
        place,
        {.key = "functions", .message = "the old form of tools is not supported", .expected = "tools"});
  }
  if (const auto tools = row.find("tools"); tools != row.end() && !tools->is_null()) {
    if (!tools->is_array())
      return RowError(place, {.key = "tools", .found = DescribeValue(*tools), .expected = "a list"});
    if (!tools->empty()) input.tools = *tools;
  }
  if (const auto extra = row.find("chat_template_kwargs"); extra != row.end() && !extra->is_null()) {
    if (!extra->is_object()) {
      return RowError(
          place, {.key = "chat_template_kwargs", .found = DescribeValue(*extra), .expected = "an object"});
    }
    input.extra = *extra;
  }
  return absl::OkStatus();
}

std::string DescribeRoles(const OrderedJson& messages) {
  std::vector<std::string> roles;
  for (const OrderedJson& message : messages) {
    const std::string& role = message.at("role").get_ref<const std::string&>();
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) roles.push_back(role);
  }
  return roles.empty() ? "no message" : StrCat("the roles ", StrJoin(roles, ", "));
}

}  // namespace

absl::StatusOr<ChatRow> ReadChatRow(const OrderedJson& row, const RowPlace& place, TrainTurns turns) {
  const auto messages = row.find("messages");
  if (messages == row.end()) {
    return RowError(
        place, {.message = "the row has no messages", .found = DescribeKeys(row), .expected = "messages"});
  }
  if (!messages->is_array()) {
    return RowError(place,
                    {.key = "messages", .found = DescribeValue(*messages), .expected = "a list of messages"});
  }
  ChatRow chat;
  size_t last_assistant = messages->size();
  for (size_t i = 0; i < messages->size(); ++i) {
    MessageReader reader(place, i, (*messages)[i]);
    FTUNE_ASSIGN_OR_RETURN(OrderedJson message, reader.Read());
    chat.input.messages.push_back(std::move(message));
    chat.trained.push_back(reader.trained());
    if (!reader.is_assistant()) continue;
    last_assistant = i;
    chat.has_untrained_flag = chat.has_untrained_flag || !reader.trained();
  }
  if (last_assistant == messages->size()) {
    return RowError(place, {.key = "messages",
                            .message = "no message of the assistant to learn from",
                            .found = DescribeRoles(chat.input.messages),
                            .expected = "a message with the role assistant"});
  }
  if (turns == TrainTurns::kLast) {
    std::fill(chat.trained.begin(), chat.trained.begin() + static_cast<std::ptrdiff_t>(last_assistant),
              uint8_t{0});
  }
  FTUNE_RETURN_IF_ERROR(ReadExtras(row, place, chat.input));
  return chat;
}

}  // namespace ftune
