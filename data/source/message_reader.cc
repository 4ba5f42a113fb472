#include "data/source/message_reader.h"

#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/source/row_roles.h"
#include "data/source/tool_calls.h"

namespace ftune {
namespace {

class MessageReader {
 public:
  MessageReader(const OrderedJson& message, const std::string& key, const RowPlace& place,
                const RowMapping& mapping)
      : message_(message), key_(key), place_(place), fields_(message, place, mapping) {}

  absl::StatusOr<ReadMessage> Read() {
    if (!message_.is_object()) {
      return Error("", {.found = DescribeValue(message_), .expected = "an object with role and content"});
    }
    FTUNE_RETURN_IF_ERROR(ReadRole());
    FTUNE_RETURN_IF_ERROR(ReadCalls());
    FTUNE_ASSIGN_OR_RETURN(const std::string content, Content());
    ReadMessage read;
    FTUNE_RETURN_IF_ERROR(ReadFlag("weight", read.flag));
    FTUNE_RETURN_IF_ERROR(ReadFlag("train", read.flag));
    read.message = OrderedJson::object();
    for (const auto& item : message_.items()) {
      // Tables written row by row fill absent keys with null; templates ask whether a key is there.
      if (item.value().is_null() && item.key() != content_key_) continue;
      FTUNE_RETURN_IF_ERROR(Put(item.key(), item.value(), content, read.message));
    }
    read.message.emplace("content", content);
    return read;
  }

 private:
  absl::Status Error(const std::string& key, RowProblem problem) const {
    problem.key = key_ + key;
    return RowError(place_, std::move(problem));
  }

  // The name of a column in this message: the mapped one, or the first of the usual ones that is there.
  std::string NameOf(const char* column, const char* other) const {
    const std::string name = fields_.NameOf(column);
    return name == column && !message_.contains(name) && message_.contains(other) ? other : name;
  }

  // One key of the message under the name that templates know, at the place where it stands.
  absl::Status Put(const std::string& key, const OrderedJson& value, const std::string& content,
                   OrderedJson& message) const {
    if (key == role_key_) {
      message["role"] = role_;
    } else if (key == content_key_) {
      message["content"] = content;
      if (is_call_) message["tool_calls"] = calls_;
    } else if (key == fields_.NameOf("tool_calls") || key == "function_call") {
      if (!calls_.is_null()) message["tool_calls"] = calls_;
    } else if (key == "role" || key == "content" || key == "tool_calls") {
      // Something else in this dataset: the template would take it for what it is not.
    } else if (key != fields_.NameOf("weight") && key != fields_.NameOf("train")) {
      FTUNE_RETURN_IF_ERROR(CheckTexts(value, StrCat(key_, ".", key)));
      message[key] = value;
    }
    return absl::OkStatus();
  }

  absl::Status ReadRole() {
    role_key_ = NameOf("role", "from");
    content_key_ = NameOf("content", "value");
    const auto role = message_.find(role_key_);
    if (role == message_.end()) {
      return Error("", {.message = "a message has no role",
                        .found = DescribeKeys(message_),
                        .expected = "role and content"});
    }
    const std::string key = StrCat(".", role_key_);
    if (!role->is_string()) return Error(key, {.found = DescribeValue(*role), .expected = "a string"});
    const std::string& name = role->get_ref<const std::string&>();
    const std::optional<std::string> known = CanonicalRole(name, fields_.mapping());
    if (!known) {
      return Error(key,
                   {.message = "unknown role",
                    .found = DescribeValue(*role),
                    .expected = StrCat("one of ", StrJoin(RoleNames(), ", "),
                                       ", or a usual name of them (human, gpt, observation, …)"),
                    .hint = StrCat("say what it stands for in the dataset's roles: {", name, ": user}, or {",
                                   name, ": ", name, "} if the chat template knows it")});
    }
    role_ = *known;
    return absl::OkStatus();
  }

  bool is_assistant() const { return role_ == kAssistantRole; }

  absl::Status ReadCalls() {
    const std::string name = fields_.NameOf("tool_calls");
    if (const OrderedJson* calls = fields_.Find("tool_calls"); calls != nullptr && !calls->empty()) {
      calls_ = *calls;
      return ParseArguments(place_, StrCat(key_, ".", name), calls_);
    }
    if (const auto call = message_.find("function_call"); call != message_.end() && !call->is_null()) {
      FTUNE_ASSIGN_OR_RETURN(calls_, CallsOf(place_, StrCat(key_, ".function_call"), *call));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Content() {
    const auto content = message_.find(content_key_);
    const std::string key = StrCat(".", content_key_);
    if (role_ == kFunctionCallRole) {
      const bool is_text = content != message_.end() && content->is_string();
      const std::string text = is_text ? content->get<std::string>()
                                       : (content == message_.end() ? OrderedJson() : *content).dump();
      FTUNE_ASSIGN_OR_RETURN(calls_, CallsOfText(place_, key_ + key, text));
      role_ = kAssistantRole;
      is_call_ = true;
      return std::string();
    }
    if (content == message_.end() || content->is_null()) {
      // OpenAI leaves the content out where the assistant only calls tools.
      if (is_assistant() && !calls_.is_null()) return std::string();
      return Error(
          key, {.message = content == message_.end() ? "a message has no content" : "",
                .found = content == message_.end() ? DescribeKeys(message_) : "null",
                .expected = is_assistant() ? "content or tool_calls" : "a string or a list of text parts"});
    }
    if (content->is_string()) {
      FTUNE_RETURN_IF_ERROR(CheckTexts(*content, key_ + key));
      return content->get<std::string>();
    }
    if (!content->is_array()) {
      return Error(key, {.found = DescribeValue(*content), .expected = "a string or a list of text parts"});
    }
    std::string text;
    for (size_t i = 0; i < content->size(); ++i) {
      const OrderedJson& part = (*content)[i];
      const auto words = part.find("text");
      if (!IsTextPart(part) || words == part.end() || !words->is_string()) {
        return Error(StrCat(key, "[", i, "]"), {.message = "only parts of text can be trained on",
                                                .found = DescribeValue(part),
                                                .expected = R"({"type": "text", "text": "…"})"});
      }
      text += words->get_ref<const std::string&>();
    }
    FTUNE_RETURN_IF_ERROR(CheckTexts(text, key_ + key));
    return text;
  }

  static bool IsTextPart(const OrderedJson& part) {
    if (!part.is_object()) return false;
    const auto type = part.find("type");
    return type != part.end() && (*type == "text" || *type == "input_text" || *type == "output_text");
  }

  absl::Status CheckTexts(const OrderedJson& value, const std::string& key) const {
    if (!value.is_string()) return absl::OkStatus();
    return CheckNoNulInField(value.get_ref<const std::string&>(), key, place_);
  }

  absl::Status ReadFlag(const char* column, std::optional<bool>& result) const {
    const OrderedJson* flag = fields_.Find(column);
    if (flag == nullptr) return absl::OkStatus();
    const bool yes = *flag == true || *flag == 1;
    const bool no = *flag == false || *flag == 0;
    if (!yes && !no) {
      return Error(StrCat(".", fields_.NameOf(column)),
                   {.found = DescribeValue(*flag), .expected = "0 or 1"});
    }
    result = yes && result.value_or(true);
    return absl::OkStatus();
  }

  const OrderedJson& message_;
  const std::string& key_;
  const RowPlace& place_;
  RowFields fields_;
  std::string role_key_, content_key_;
  std::string role_;
  OrderedJson calls_;     // null where there are none
  bool is_call_ = false;  // the content is a call
};

}  // namespace

absl::StatusOr<ReadMessage> ReadMessageOf(const OrderedJson& message, const std::string& key,
                                          const RowPlace& place, const RowMapping& mapping) {
  return MessageReader(message, key, place, mapping).Read();
}

}  // namespace ftune
