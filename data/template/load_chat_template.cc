#include "data/template/load_chat_template.h"

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "data/template/builtin_templates.h"

namespace ftune {
namespace {

std::string JinjaString(const std::string& text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (byte < 0x20) {
      quoted += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// A JSON value as a Jinja expression.
std::string JinjaLiteral(const OrderedJson& value) {
  std::vector<std::string> items;
  if (value.is_array()) {
    for (const OrderedJson& item : value) items.push_back(JinjaLiteral(item));
    return StrCat("[", StrJoin(items, ", "), "]");
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items())
      items.push_back(StrCat(JinjaString(key), ": ", JinjaLiteral(item)));
    return StrCat("{", StrJoin(items, ", "), "}");
  }
  if (value.is_string()) return JinjaString(value.get_ref<const std::string&>());
  return value.is_null() ? "none" : value.dump();
}

}  // namespace

bool IsJinjaText(std::string_view text) {
  return text.find("{{") != std::string_view::npos || text.find("{%") != std::string_view::npos;
}

absl::StatusOr<TemplateText> FindTemplate(const std::string& choice, const ErrorDetail& at) {
  if (const auto builtin = FindBuiltinTemplate(choice))
    return TemplateText{StrCat("the built-in template ", choice), std::string(*builtin)};
  if (IsJinjaText(choice)) return TemplateText{at.key, choice};
  std::error_code error;
  if (!std::filesystem::is_regular_file(choice, error)) {
    ErrorDetail detail = at;
    detail.found = StrCat("'", choice, "', which is neither a file nor a template's name");
    detail.expected = StrCat("auto (the tokenizer's own template), one of ", BuiltinTemplateNames(),
                             ", a Jinja file, or Jinja text");
    return UsageError(std::move(detail));
  }
  FTUNE_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(choice));
  return TemplateText{choice, std::string(mapped.text())};
}

absl::StatusOr<TemplateText> FindTemplate(const std::string& choice, const ErrorDetail& at,
                                          const Tokenizer& tokenizer, const std::filesystem::path& model) {
  if (choice != "auto") return FindTemplate(choice, at);
  if (!tokenizer.chat_template().empty())
    return TemplateText{StrCat(model.string(), " (chat template)"), tokenizer.chat_template()};
  return DataError({.file = model.string(),
                    .message = "the tokenizer comes with no chat template",
                    .hint = StrCat("name one with ", at.key,
                                   ": a Jinja file, say from the model's instruct version, "
                                   "or one of ",
                                   BuiltinTemplateNames())});
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> LoadChatTemplate(const std::string& choice,
                                                               const ErrorDetail& at,
                                                               const Tokenizer& tokenizer,
                                                               const std::filesystem::path& model,
                                                               const OrderedJson& variables) {
  FTUNE_ASSIGN_OR_RETURN(TemplateText text, FindTemplate(choice, at, tokenizer, model));
  return ParseChatTemplate(text.source, std::move(text.name), tokenizer.special(), variables);
}

std::string WithVariables(const std::string& source, const OrderedJson& variables) {
  std::string prelude;
  for (const auto& [name, value] : variables.items()) {
    // The line's end goes with the tag before it (trim_blocks), so that `source` begins as it did.
    StrAppend(prelude, "{% if ", name, " is not defined %}{% set ", name, " = ", JinjaLiteral(value),
              " %}{% endif %}\n");
  }
  return prelude + source;
}

}  // namespace ftune
