// ftune generate MODEL: text from a model, with or without an adapter.

#include "engine/train/generate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/model_session.h"
#include "cmd/prompt.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_folder.h"
#include "data/template/load_chat_template.h"

namespace ftune {
namespace {

struct Options {
  std::string model;
  std::vector<std::string> adapters;
  std::string quantize;
  std::string prompt;
  std::string chat;
  std::string chat_template = "auto";
  std::string chat_template_kwargs = "{}";
  GenerateOptions generate;
};

absl::StatusOr<OrderedJson> ParseVariables(const std::string& text) {
  OrderedJson variables = OrderedJson::parse(text, nullptr, /*allow_exceptions=*/false);
  constexpr char kKey[] = "--chat-template-kwargs";
  if (!variables.is_object()) {
    return UsageError({.file = "command line",
                       .key = kKey,
                       .found = text,
                       .expected = R"(a JSON object, such as {"enable_thinking": false})"});
  }
  for (const auto& entry : variables.items()) {
    if (!IsConversationVariable(entry.key())) continue;
    return UsageError({.file = "command line",
                       .key = StrCat(kKey, " ", entry.key()),
                       .message = "each conversation sets this variable itself",
                       .hint = "take it out"});
  }
  return variables;
}

absl::StatusOr<std::vector<int32_t>> PromptIds(const Options& options, const Tokenizer& tokenizer) {
  if (options.chat.empty()) return tokenizer.Encode(options.prompt, {.add_special_tokens = true}).ids;
  FTUNE_ASSIGN_OR_RETURN(const OrderedJson variables, ParseVariables(options.chat_template_kwargs));
  FTUNE_ASSIGN_OR_RETURN(
      const std::unique_ptr<ChatTemplate> chat_template,
      LoadChatTemplate(options.chat_template, {.file = "command line", .key = "--chat-template"}, tokenizer,
                       options.model, variables));
  return ChatPrompt(options.chat, *chat_template, tokenizer);
}

// Collects text as its tokens come, and prints it if asked to.
class TextStream {
 public:
  TextStream(const Tokenizer& tokenizer, bool print) : decoder_(tokenizer.MakeDecoder(true)), print_(print) {}

  void Add(int32_t token) { Show(decoder_->Push(token)); }
  std::string Finish() {
    Show(decoder_->Finish());
    if (print_) std::printf("\n");
    return std::move(text_);
  }

 private:
  void Show(const std::string& text) {
    text_ += text;
    if (!print_ || text.empty()) return;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  std::unique_ptr<TextDecoder> decoder_;
  bool print_;
  std::string text_;
};

absl::Status CheckOptions(const Options& options) {
  if (options.prompt.empty() == options.chat.empty()) {
    return UsageError({.file = "command line",
                       .message = options.prompt.empty() ? "no prompt" : "both --prompt and --chat",
                       .expected = "one of --prompt TEXT (as it is) and --chat TEXT (as a user's message)"});
  }
  const auto check = [](bool good, const char* key, std::string found, const char* expected) {
    if (good) return absl::OkStatus();
    return UsageError(
        {.file = "command line", .key = key, .found = std::move(found), .expected = std::string(expected)});
  };
  const GenerateOptions& g = options.generate;
  FTUNE_RETURN_IF_ERROR(
      check(g.temperature >= 0.0, "--temperature", StrCat(g.temperature), "0 (greedy) or more"));
  FTUNE_RETURN_IF_ERROR(
      check(g.top_p > 0.0 && g.top_p <= 1.0, "--top-p", StrCat(g.top_p), "more than 0, at most 1"));
  return check(g.max_new_tokens > 0, "--max-new-tokens", StrCat(g.max_new_tokens), "1 or more");
}

absl::StatusOr<CommandResult> Run(Options options, const Invocation& invocation) {
  FTUNE_RETURN_IF_ERROR(CheckOptions(options));
  FTUNE_ASSIGN_OR_RETURN(RunModel source,
                         FindRunModel(options.model, "", HubProgress(invocation.verbosity())));
  source.adapters.insert(source.adapters.end(), options.adapters.begin(), options.adapters.end());
  FTUNE_ASSIGN_OR_RETURN(
      ModelSession session,
      OpenSession(source.model, {.adapters = source.adapters, .trained = source.trained}, options.quantize));
  const ModelConfig& config = session.loaded.files.config;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, PromptIds(options, *session.tokenizer));

  options.generate.stop_ids = StopIds(config, *session.tokenizer);
  TextStream stream(*session.tokenizer, !invocation.json);
  FTUNE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                         Generate(*session.backend, Stream(), *session.loaded.model, config.LongestText(),
                                  prompt, options.generate, [&](int32_t token) {
                                    stream.Add(token);
                                    return true;
                                  }));
  const std::string text = stream.Finish();
  return CommandResult{.json = {{"text", text}, {"tokens", tokens}}};
}

}  // namespace

void AddGenerate(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("generate", "Text from a model");
  command->add_option("MODEL", options->model, "A model's folder, .gguf file or hub id, or a run's folder")
      ->required();
  command
      ->add_option("--adapter", options->adapters,
                   "A PEFT adapter's folder; several: one on top of the other")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddQuantizeOption(*command, options->quantize);
  command->add_option("--prompt", options->prompt, "Text to go on from, as it is");
  command->add_option("--chat", options->chat, "A user's message, put into the model's chat template");
  command->add_option("--chat-template", options->chat_template,
                      "auto, a built-in template's name, a Jinja file, or Jinja text");
  command->add_option("--chat-template-kwargs", options->chat_template_kwargs,
                      "Variables for the chat template, as a JSON object");
  command->add_option("--max-new-tokens", options->generate.max_new_tokens, "At most this many")
      ->capture_default_str();
  command->add_option("--temperature", options->generate.temperature, "0: always the likeliest token")
      ->capture_default_str();
  command
      ->add_option("--top-p", options->generate.top_p,
                   "Sample from the likeliest tokens that hold this share")
      ->capture_default_str();
  command->add_option("--seed", options->generate.seed, "Of the sampling")->capture_default_str();
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
