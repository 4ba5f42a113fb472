#include "data/template/load_chat_template.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "data/template/builtin_templates.h"
#include "data/tokenizer/utf8.h"

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

absl::Status CheckIsText(const std::string& file, std::string_view text) {
  const std::string expected = "a chat template, which is Jinja text in UTF-8";
  if (text.empty()) return DataError({.file = file, .found = "an empty file", .expected = expected});
  size_t bad = 0;
  const size_t valid = ValidUtf8Prefix(text, 0, &bad);
  if (valid == text.size()) return absl::OkStatus();
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(valid), '\n');
  return DataError({.file = file,
                    .line = static_cast<int>(line),
                    .found = "bytes that are not UTF-8",
                    .expected = expected});
}

}  // namespace

bool IsJinjaText(std::string_view text) {
  return text.find("{{") != std::string_view::npos || text.find("{%") != std::string_view::npos;
}

bool IsTemplateFile(const std::string& choice) {
  return !FindBuiltinTemplate(choice) && !IsJinjaText(choice);
}

absl::StatusOr<TemplateText> FindTemplate(const std::string& choice, const ErrorDetail& at) {
  if (const auto builtin = FindBuiltinTemplate(choice))
    return TemplateText{StrCat("the built-in template ", choice), std::string(*builtin), std::nullopt};
  if (IsJinjaText(choice)) return TemplateText{at.key, choice, at};
  std::error_code error;
  if (!std::filesystem::is_regular_file(choice, error)) {
    ErrorDetail detail = at;
    detail.found = StrCat("'", choice, "', which is neither a file nor a template's name");
    if (detail.expected.empty()) detail.expected = "auto (the tokenizer's own template)";
    StrAppend(detail.expected, ", one of ", BuiltinTemplateNames(), ", a Jinja file, or Jinja text");
    return UsageError(std::move(detail));
  }
  FTUNE_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(choice));
  FTUNE_RETURN_IF_ERROR(CheckIsText(choice, mapped.text()));
  return TemplateText{choice, std::string(mapped.text()), std::nullopt};
}

absl::StatusOr<TemplateText> FindTemplate(const std::string& choice, const ErrorDetail& at,
                                          const Tokenizer& tokenizer, const std::filesystem::path& model) {
  if (choice != "auto") return FindTemplate(choice, at);
  if (!tokenizer.chat_template().empty())
    return TemplateText{StrCat(model.string(), " (chat template)"), tokenizer.chat_template(), std::nullopt};
  return DataError({.file = model.string(),
                    .message = "the tokenizer comes with no chat template",
                    .hint = StrCat("name one with ", at.key,
                                   ": a Jinja file, say from the model's instruct version, "
                                   "or one of ",
                                   BuiltinTemplateNames())});
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ParseTemplateText(const TemplateText& text,
                                                                const SpecialTokens& special,
                                                                const OrderedJson& variables) {
  auto parsed = ParseChatTemplate(text.source, text.name, special, variables);
  const std::optional<ErrorDetail> problem = DetailOf(parsed.status());
  if (!problem || !text.inlined) return parsed;
  ErrorDetail detail = *text.inlined;
  detail.message = StrCat("line ", problem->line, " of the template: ", problem->message);
  detail.expected.clear();
  detail.hint = "mend the template";
  return UsageError(std::move(detail));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> LoadChatTemplate(const std::string& choice,
                                                               const ErrorDetail& at,
                                                               const Tokenizer& tokenizer,
                                                               const std::filesystem::path& model,
                                                               const OrderedJson& variables) {
  FTUNE_ASSIGN_OR_RETURN(const TemplateText text, FindTemplate(choice, at, tokenizer, model));
  return ParseTemplateText(text, tokenizer.special(), variables);
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
