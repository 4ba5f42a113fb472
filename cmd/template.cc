// ftune template MODEL|FILE: a conversation on standard input, rendered by a chat template.

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "cmd/command.h"
#include "cmd/hub/resolve.h"
#include "cmd/report/hub_progress.h"
#include "cmd/standard_input.h"
#include "data/template/chat_template.h"
#include "data/template/load_chat_template.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {
namespace {

struct Options {
  std::string source;
  bool mask = false;
};

// Takes `key` out of `input`, or null.
OrderedJson Take(OrderedJson& input, const char* key) {
  const auto found = input.find(key);
  if (found == input.end()) return nullptr;
  OrderedJson value = std::move(*found);
  input.erase(found);
  return value;
}

std::string TakeText(OrderedJson& input, const char* key) {
  const OrderedJson value = Take(input, key);
  return value.is_string() ? value.get<std::string>() : "";
}

absl::StatusOr<ChatInput> ParseInput(OrderedJson input) {
  if (!input.is_object() || !input.contains("messages")) {
    return UsageError({.file = "standard input",
                       .message = "not a JSON object with messages",
                       .expected = R"({"messages": [{"role": "user", "content": "…"}]})"});
  }
  ChatInput chat;
  chat.messages = Take(input, "messages");
  chat.tools = Take(input, "tools");
  const OrderedJson prompt = Take(input, "add_generation_prompt");
  chat.add_generation_prompt = prompt.is_boolean() && prompt.get<bool>();
  chat.extra = std::move(input);
  return chat;
}

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  OrderedJson input = OrderedJson::parse(ReadStandardInput(), nullptr, false);
  std::unique_ptr<ChatTemplate> chat_template;
  if (options.source.ends_with(".jinja")) {
    SpecialTokens special;
    const std::string bos = input.is_object() ? TakeText(input, "bos_token") : "";
    const std::string eos = input.is_object() ? TakeText(input, "eos_token") : "";
    if (!bos.empty()) special.bos = SpecialToken{bos, -1};
    if (!eos.empty()) special.eos = SpecialToken{eos, -1};
    FTUNE_ASSIGN_OR_RETURN(chat_template, ReadChatTemplate(options.source, special));
  } else {
    FTUNE_ASSIGN_OR_RETURN(const ResolvedModel model,
                           ResolveModelPath(options.source, std::nullopt, ModelParts::kTokenizer,
                                            HubProgress(invocation.verbosity())));
    FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(model.path));
    FTUNE_ASSIGN_OR_RETURN(chat_template, LoadChatTemplate("auto", *tokenizer, options.source));
  }
  FTUNE_ASSIGN_OR_RETURN(const ChatInput chat, ParseInput(std::move(input)));

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
  command->add_option("SOURCE", options->source, "A model's folder, .gguf file or hub id, or a .jinja file")
      ->required();
  command->add_flag("--mask", options->mask, "Also the bytes of the text that the assistant wrote");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
