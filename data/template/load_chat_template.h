// Finds the chat template that a recipe or command asks for.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/error.h"
#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

struct TemplateText {
  std::string name;  // as messages call it
  std::string source;
  std::optional<ErrorDetail> inlined;  // where the text itself was given; not set: `name` is enough
};

// Whether `text` is no name or path but a template itself: it has {{ or {% in it.
bool IsJinjaText(std::string_view text);

// Whether FindTemplate takes `choice` for a path.
bool IsTemplateFile(const std::string& choice);

// `choice`: a built-in template's name, Jinja text itself, or the path of a Jinja file.
// `at`: where it was chosen (file, line, key), for errors; its `expected`, if any, says what may be chosen
// there.
absl::StatusOr<TemplateText> FindTemplate(const std::string& choice, const ErrorDetail& at);

// As FindTemplate; or "auto", the tokenizer's own. `model` is named in errors.
absl::StatusOr<TemplateText> FindTemplate(const std::string& choice, const ErrorDetail& at,
                                          const Tokenizer& tokenizer, const std::filesystem::path& model);

// ParseChatTemplate of it. Errors in a text that was given itself have the place where that was.
absl::StatusOr<std::unique_ptr<ChatTemplate>> ParseTemplateText(
    const TemplateText& text, const SpecialTokens& special,
    const OrderedJson& variables = OrderedJson::object());

// FindTemplate's, ready to render with the tokenizer's special tokens. `variables` as ParseChatTemplate has
// them.
absl::StatusOr<std::unique_ptr<ChatTemplate>> LoadChatTemplate(
    const std::string& choice, const ErrorDetail& at, const Tokenizer& tokenizer,
    const std::filesystem::path& model, const OrderedJson& variables = OrderedJson::object());

// The template that renders without `variables` what `source` renders with them, for programs that are told
// of none. A variable given to it still goes before.
std::string WithVariables(const std::string& source, const OrderedJson& variables);

}  // namespace ftune
