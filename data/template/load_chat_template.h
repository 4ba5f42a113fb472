// Finds the chat template that a recipe or command asks for.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

absl::StatusOr<std::unique_ptr<ChatTemplate>> ReadChatTemplate(const std::filesystem::path& file,
                                                               const SpecialTokens& special);

// `choice`: "auto" is the tokenizer's own; anything else is the path of a Jinja file. `model` is named in
// errors.
absl::StatusOr<std::unique_ptr<ChatTemplate>> LoadChatTemplate(const std::string& choice,
                                                               const Tokenizer& tokenizer,
                                                               const std::filesystem::path& model);

}  // namespace ftune
