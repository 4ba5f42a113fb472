// ftune tokenize MODEL: text on standard input to ids, or back.

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/hub/resolve.h"
#include "cmd/report/hub_progress.h"
#include "cmd/standard_input.h"
#include "data/file/text_place.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {
namespace {

struct Options {
  std::string model;
  bool decode = false;
  bool special = false;
};

absl::StatusOr<std::vector<int32_t>> ReadIds(std::string_view text, int64_t vocab_size) {
  const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_array()) {
    return UsageError(
        {.file = "standard input", .message = "not a JSON array of token ids", .expected = "[1, 2, 3]"});
  }
  std::vector<int32_t> ids;
  for (const nlohmann::json& id : list) {
    if (!id.is_number_integer() || id < 0 || id >= vocab_size) {
      return UsageError({.file = "standard input",
                         .key = StrCat("[", ids.size(), "]"),
                         .found = id.is_structured() ? std::string(id.type_name()) : id.dump(),
                         .expected = StrCat("a token id, 0 to ", vocab_size - 1)});
    }
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

absl::StatusOr<CommandResult> Decode(const Tokenizer& tokenizer, const Options& options, bool json) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                         ReadIds(ReadStandardInput(), tokenizer.vocab_size()));
  const std::string text = tokenizer.Decode(ids, !options.special);
  if (!json) std::fwrite(text.data(), 1, text.size(), stdout);
  return CommandResult{.json = {{"text", text}}};
}

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  FTUNE_ASSIGN_OR_RETURN(const ResolvedModel model,
                         ResolveModelPath(options.model, std::nullopt, ModelParts::kTokenizer,
                                          HubProgress(invocation.verbosity())));
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(model.path));
  if (options.decode) return Decode(*tokenizer, options, invocation.json);
  const std::string text = ReadStandardInput();
  FTUNE_RETURN_IF_ERROR(CheckUtf8(text, {"standard input", 1}, 1));
  const Encoding encoding = tokenizer->Encode(text, {.add_special_tokens = options.special});
  if (!invocation.json) std::printf("%s\n", nlohmann::json(encoding.ids).dump().c_str());
  return CommandResult{.json = {{"ids", encoding.ids}}};
}

}  // namespace

void AddTokenize(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("tokenize", "Text on standard input to token ids, or back");
  command
      ->add_option("MODEL", options->model, "A model's folder, .gguf file or hub id, or a tokenizer's file")
      ->required();
  command->add_flag("--decode", options->decode, "Standard input is a JSON array of ids; print their text");
  command->add_flag("--special", options->special,
                    "Add the tokenizer's special tokens (BOS …); with --decode, show them");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
