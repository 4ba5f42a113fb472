#include "data/template/load_chat_template.h"

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<std::unique_ptr<ChatTemplate>> ReadChatTemplate(const std::filesystem::path& file,
                                                               const SpecialTokens& special) {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(file));
  return ParseChatTemplate(mapped.text(), file.string(), special);
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> LoadChatTemplate(const std::string& choice,
                                                               const Tokenizer& tokenizer,
                                                               const std::filesystem::path& model) {
  if (choice != "auto") {
    if (!std::filesystem::is_regular_file(choice)) {
      return UsageError({.key = "data.chat_template",
                         .found = StrCat("'", choice, "', which is no file"),
                         .expected = "auto (the tokenizer's own template) or the path of a Jinja file"});
    }
    return ReadChatTemplate(choice, tokenizer.special());
  }
  if (tokenizer.chat_template().empty()) {
    return DataError(
        {.file = model.string(),
         .message = "the tokenizer comes with no chat template",
         .hint = "name one with data.chat_template: a Jinja file, say from the model's instruct version"});
  }
  return ParseChatTemplate(tokenizer.chat_template(), StrCat(model.string(), " (chat template)"),
                           tokenizer.special());
}

}  // namespace ftune
