#include "data/source/chat_row.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/source/row_roles.h"
#include "data/source/tool_calls.h"

namespace ftune {

bool ChatRowBuilder::IsTrainedRole(const std::string& role) const {
  const std::vector<std::string>& roles = options_.roles_to_train;
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

absl::Status ChatRowBuilder::Add(const OrderedJson& message, const std::string& key, bool is_prompt) {
  FTUNE_ASSIGN_OR_RETURN(ReadMessage read, ReadMessageOf(message, key, fields_.place(), fields_.mapping()));
  const bool is_trained_role = !is_prompt && IsTrainedRole(read.role());
  if (read.flag == true && !is_trained_role && !is_prompt) {
    return RowError(fields_.place(),
                    {.key = key,
                     .message = "only messages of a role to train can be chosen to be trained",
                     .found = StrCat("weight or train on the role ", read.role()),
                     .expected = StrJoin(options_.roles_to_train, ", "),
                     .hint = "remove the flag, or name the role in data.roles_to_train"});
  }
  if (is_trained_role) {
    last_ = chat_.trained.size();
    chat_.has_untrained_flag = chat_.has_untrained_flag || read.flag == false;
  }
  chat_.input.messages.push_back(std::move(read.message));
  chat_.trained.push_back(is_trained_role && read.flag.value_or(true));
  return absl::OkStatus();
}

void ChatRowBuilder::Say(const std::string& role, const std::string& content) {
  const bool trained = IsTrainedRole(role);
  if (trained) last_ = chat_.trained.size();
  chat_.input.messages.push_back({{"role", role}, {"content", content}});
  chat_.trained.push_back(trained);
}

absl::Status ChatRowBuilder::AddSystem() {
  FTUNE_ASSIGN_OR_RETURN(const std::string system, fields_.TextOr("system"));
  if (system.empty()) return absl::OkStatus();
  OrderedJson& messages = chat_.input.messages;
  if (!messages.empty() && messages[0].at("role") == kSystemRole) {
    return fields_.Error("system", {.message = "the row has two system prompts",
                                    .found = "the column and a message with the role system",
                                    .expected = "one of them"});
  }
  OrderedJson first = {{"role", kSystemRole}, {"content", system}};
  messages.insert(messages.begin(), std::move(first));
  chat_.trained.insert(chat_.trained.begin(), IsTrainedRole(kSystemRole));
  if (last_) ++*last_;
  return absl::OkStatus();
}

absl::Status ChatRowBuilder::AddExtras() {
  FTUNE_ASSIGN_OR_RETURN(chat_.input.tools, ReadTools(fields_));
  const auto extra = fields_.row().find("chat_template_kwargs");
  if (extra == fields_.row().end() || extra->is_null()) return absl::OkStatus();
  if (!extra->is_object()) {
    return RowError(fields_.place(),
                    {.key = "chat_template_kwargs", .found = DescribeValue(*extra), .expected = "an object"});
  }
  chat_.input.extra = *extra;
  return absl::OkStatus();
}

std::string ChatRowBuilder::DescribeRoles() const {
  std::vector<std::string> roles;
  for (const OrderedJson& message : chat_.input.messages) {
    const std::string& role = message.at("role").get_ref<const std::string&>();
    if (std::find(roles.begin(), roles.end(), role) == roles.end()) roles.push_back(role);
  }
  return roles.empty() ? "no message" : StrCat("the roles ", StrJoin(roles, ", "));
}

absl::StatusOr<ChatRow> ChatRowBuilder::Finish(const std::string& column) {
  FTUNE_RETURN_IF_ERROR(AddSystem());
  if (!last_) {
    const bool assistant_only = options_.roles_to_train == std::vector<std::string>{kAssistantRole};
    return fields_.Error(
        column, {.message = assistant_only ? "no message of the assistant to learn from"
                                           : "no message of a role to train",
                 .found = DescribeRoles(),
                 .expected = StrCat("a message with the role ", StrJoin(options_.roles_to_train, " or "))});
  }
  if (options_.train_on_turns == TrainTurns::kLast) {
    std::fill(chat_.trained.begin(), chat_.trained.begin() + static_cast<std::ptrdiff_t>(*last_), uint8_t{0});
  }
  FTUNE_RETURN_IF_ERROR(AddExtras());
  return std::move(chat_);
}

absl::StatusOr<ChatRow> ReadChatRow(const RowFields& fields, const ChatRowOptions& options) {
  const bool is_share_gpt = fields.NameOf("messages") == "messages" && !fields.row().contains("messages") &&
                            fields.row().contains("conversations");
  const std::string column = is_share_gpt ? "conversations" : "messages";
  FTUNE_ASSIGN_OR_RETURN(const OrderedJson messages, fields.List(column));
  ChatRowBuilder builder(fields, options);
  for (size_t i = 0; i < messages.size(); ++i) {
    FTUNE_RETURN_IF_ERROR(builder.Add(messages[i], StrCat(fields.NameOf(column), "[", i, "]")));
  }
  return builder.Finish(column);
}

}  // namespace ftune
