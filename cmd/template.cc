// ftune template MODEL|FILE|NAME: a conversation on standard input, rendered by a chat template.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/hub/resolve.h"
#include "cmd/report/hub_progress.h"
#include "cmd/standard_input.h"
#include "data/source/row.h"
#include "data/template/builtin_templates.h"
#include "data/template/chat_template.h"
#include "data/template/load_chat_template.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

struct Options {
  std::string source;
  bool mask = false;
};

absl::Status InputError(ErrorDetail detail) {
  detail.file = "standard input";
  return UsageError(std::move(detail));
}

// Takes `key` out of `input`: its value, or null. An error where it is something else than `expected`.
absl::StatusOr<OrderedJson> Take(OrderedJson& input, const char* key, bool (*fits)(const OrderedJson&),
                                 const char* expected) {
  const auto found = input.find(key);
  if (found == input.end()) return OrderedJson();
  OrderedJson value = std::move(*found);
  input.erase(found);
  if (value.is_null() || fits(value)) return value;
  return InputError({.key = key, .found = DescribeValue(value), .expected = expected});
}

absl::Status CheckMessages(const OrderedJson& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string key = StrCat("messages[", i, "]");
    const OrderedJson& message = messages[i];
    if (!message.is_object() || !message.contains("role")) {
      return InputError({.key = key,
                         .message = "a message has no role",
                         .found = DescribeKeys(message),
                         .expected = R"({"role": "user", "content": "…"})"});
    }
    if (message["role"].is_string()) continue;
    return InputError(
        {.key = key + ".role", .found = DescribeValue(message["role"]), .expected = "a string"});
  }
  return absl::OkStatus();
}

struct Input {
  ChatInput chat;
  SpecialTokens special;
};

absl::StatusOr<Input> ReadInput() {
  const std::string text = ReadStandardInput();
  size_t bad = 0;
  if (const size_t valid = ValidUtf8Prefix(text, 0, &bad); valid < text.size()) {
    return InputError({.found = StrCat("bytes that are not UTF-8, from byte ", valid + 1),
                       .expected = "JSON text in UTF-8"});
  }
  std::optional<OrderedJson> parsed = ParseOrderedJson(text);
  if (!parsed || !parsed->is_object() || !parsed->contains("messages")) {
    return InputError({.message = !parsed ? "not JSON" : "not a JSON object with messages",
                       .found = !parsed ? (text.empty() ? "nothing" : "") : DescribeKeys(*parsed),
                       .expected = R"({"messages": [{"role": "user", "content": "…"}]})"});
  }
  const auto is_list = [](const OrderedJson& value) { return value.is_array(); };
  const auto is_flag = [](const OrderedJson& value) { return value.is_boolean(); };
  const auto is_text = [](const OrderedJson& value) { return value.is_string(); };
  Input input;
  FTUNE_ASSIGN_OR_RETURN(input.chat.messages, Take(*parsed, "messages", is_list, "a list of messages"));
  if (input.chat.messages.is_null())
    return InputError({.key = "messages", .found = "null", .expected = "a list of messages"});
  FTUNE_RETURN_IF_ERROR(CheckMessages(input.chat.messages));
  FTUNE_ASSIGN_OR_RETURN(input.chat.tools, Take(*parsed, "tools", is_list, "a list of tools"));
  FTUNE_ASSIGN_OR_RETURN(const OrderedJson prompt,
                         Take(*parsed, "add_generation_prompt", is_flag, "true or false"));
  input.chat.add_generation_prompt = prompt == true;
  const auto take_token = [&](const char* key, std::optional<SpecialToken>& token) -> absl::Status {
    FTUNE_ASSIGN_OR_RETURN(const OrderedJson value, Take(*parsed, key, is_text, "a token's text"));
    if (value.is_string()) token = SpecialToken{value.get<std::string>(), -1};
    return absl::OkStatus();
  };
  FTUNE_RETURN_IF_ERROR(take_token("bos_token", input.special.bos));
  FTUNE_RETURN_IF_ERROR(take_token("eos_token", input.special.eos));
  input.chat.extra = *std::move(parsed);
  return input;
}

struct Source {
  TemplateText text;
  SpecialTokens special;  // of the model's tokenizer
};

// Whether `source` can only be a template: its name, its text, or a file of it.
bool IsTemplate(const std::string& source) {
  if (FindBuiltinTemplate(source) || IsJinjaText(source) || source.ends_with(".jinja")) return true;
  std::error_code error;
  return std::filesystem::is_regular_file(source, error) && !source.ends_with(".gguf");
}

absl::StatusOr<Source> FindSource(const std::string& source, const HubReporter& reporter) {
  const ErrorDetail at = {
      .file = "command line", .key = "SOURCE", .expected = "a model's folder, .gguf file or hub id"};
  if (IsTemplate(source)) {
    FTUNE_ASSIGN_OR_RETURN(TemplateText text, FindTemplate(source, at));
    return Source{.text = std::move(text)};
  }
  FTUNE_ASSIGN_OR_RETURN(const ResolvedModel model,
                         ResolveModelPath(source, std::nullopt, ModelParts::kTokenizer, reporter));
  if (!Exists(model.path)) return FindTemplate(source, at).status();
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(model.path));
  FTUNE_ASSIGN_OR_RETURN(TemplateText text, FindTemplate("auto", at, *tokenizer, source));
  return Source{.text = std::move(text), .special = tokenizer->special()};
}

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  FTUNE_ASSIGN_OR_RETURN(Source source, FindSource(options.source, HubProgress(invocation.verbosity())));
  FTUNE_ASSIGN_OR_RETURN(const Input input, ReadInput());
  if (input.special.bos) source.special.bos = input.special.bos;
  if (input.special.eos) source.special.eos = input.special.eos;
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<ChatTemplate> chat_template,
                         ParseTemplateText(source.text, source.special));
  const ChatInput& chat = input.chat;

  RenderedChat rendered;
  if (options.mask) {
    FTUNE_ASSIGN_OR_RETURN(rendered, chat_template->RenderWithSpans(chat, AssistantMessages(chat)));
  } else {
    FTUNE_ASSIGN_OR_RETURN(rendered.text, chat_template->Render(chat));
  }
  CommandResult result{.json = {{"text", rendered.text}}};
  if (options.mask) {
    result.json["spans"] = nlohmann::ordered_json::array();
    for (const MessageSpan& span : rendered.spans) {
      result.json["spans"].push_back(
          {{"message", span.message}, {"begin", span.bytes.begin}, {"end", span.bytes.end}});
    }
  }
  if (!invocation.json) {
    std::fwrite(rendered.text.data(), 1, rendered.text.size(), stdout);
    if (options.mask) std::printf("\n%s\n", result.json["spans"].dump().c_str());
  }
  return result;
}

}  // namespace

void AddTemplate(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("template", "Renders a conversation (JSON on standard input)");
  command
      ->add_option(
          "SOURCE", options->source,
          StrCat("A model's folder, .gguf file or hub id, a Jinja file, or one of ", BuiltinTemplateNames()))
      ->required();
  command->add_flag("--mask", options->mask, "Also the bytes of the text that the assistant wrote");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
