// A conversation of a dataset, checked and brought into the form that chat templates are written for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/source/message_reader.h"
#include "data/source/row_fields.h"

namespace ftune {

enum class TrainTurns { kAll, kLast };

struct ChatRow {
  // Messages as ReadMessageOf makes them. `tools` and `chat_template_kwargs` of the row are in it.
  ChatInput input;
  // As many as messages: 1 for those that are learned from.
  std::vector<uint8_t> trained;
  bool has_untrained_flag = false;  // a message of a trained role says weight 0 or train false
};

struct ChatRowOptions {
  TrainTurns train_on_turns = TrainTurns::kAll;
  std::vector<std::string> roles_to_train = {"assistant"};
};

// Puts the messages of a row together, and decides which are learned: those of the roles to train, unless a
// message's `weight` (0 or 1) or `train` (true or false, 0 or 1) says no; TrainTurns::kLast leaves the last.
class ChatRowBuilder {
 public:
  // Both outlive the builder.
  ChatRowBuilder(const RowFields& fields, const ChatRowOptions& options)
      : fields_(fields), options_(options) {}

  // `message` as it stands in the row at `key`. A prompt's messages are never learned.
  absl::Status Add(const OrderedJson& message, const std::string& key, bool is_prompt = false);
  void Say(const std::string& role, const std::string& content);
  // Adds the row's column `system`, its tools and its variables. An error where nothing would be learned
  // because no message has a role to train; `column` had the messages.
  absl::StatusOr<ChatRow> Finish(const std::string& column);

 private:
  bool IsTrainedRole(const std::string& role) const;
  absl::Status AddSystem();
  absl::Status AddExtras();
  std::string DescribeRoles() const;

  const RowFields& fields_;
  const ChatRowOptions& options_;
  ChatRow chat_;
  std::optional<size_t> last_;  // the last message of a role to train
};

// Of a row with a list of messages, under `messages` or `conversations`.
absl::StatusOr<ChatRow> ReadChatRow(const RowFields& fields, const ChatRowOptions& options);

}  // namespace ftune
