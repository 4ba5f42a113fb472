#include "cmd/prompt.h"

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<std::vector<int32_t>> ChatPrompt(const std::string& message, const ChatTemplate& chat_template,
                                                const Tokenizer& tokenizer) {
  ChatInput input;
  input.messages.push_back({{"role", "user"}, {"content", message}});
  input.add_generation_prompt = true;
  FTUNE_ASSIGN_OR_RETURN(const std::string text, chat_template.Render(input));
  return tokenizer.Encode(text).ids;
}

std::vector<int32_t> StopIds(const ModelConfig& config, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = config.eos_ids;
  if (tokenizer.special().eos) ids.push_back(tokenizer.special().eos->id);
  return ids;
}

absl::StatusOr<PromptSampler> PromptSampler::Create(const std::vector<std::string>& prompts,
                                                    int64_t max_new_tokens, int64_t max_length,
                                                    const Tokenizer& tokenizer,
                                                    const ChatTemplate* chat_template) {
  PromptSampler sampler(tokenizer);
  sampler.max_new_tokens_ = max_new_tokens;
  sampler.max_length_ = max_length;
  for (const std::string& text : prompts) {
    Prompt prompt = {.text = text};
    if (chat_template != nullptr) {
      FTUNE_ASSIGN_OR_RETURN(prompt.ids, ChatPrompt(text, *chat_template, tokenizer));
    } else {
      prompt.ids = tokenizer.Encode(text, {.add_special_tokens = true}).ids;
    }
    const int64_t length = static_cast<int64_t>(prompt.ids.size());
    if (length == 0 || length >= max_length) {
      return UsageError(
          {.key = "train.sample_prompts",
           .found = StrCat("'", text, "', ", length, " tokens"),
           .expected = StrCat("1 to ", max_length - 1, " tokens (data.sequence_len and an answer)")});
    }
    sampler.prompts_.push_back(std::move(prompt));
  }
  return sampler;
}

absl::StatusOr<std::vector<PromptAnswer>> PromptSampler::Answer(Backend& backend, Stream stream, Model& model,
                                                                Pipeline* pipeline,
                                                                const std::function<void()>& on_token) const {
  GenerateOptions options;
  options.max_new_tokens = max_new_tokens_;
  options.stop_ids = StopIds(model.config(), *tokenizer_);
  std::vector<PromptAnswer> answers;
  for (const Prompt& prompt : prompts_) {
    const auto goes_on = [&](int32_t /*token*/) {
      on_token();
      return true;
    };
    FTUNE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, Generate(backend, stream, model, max_length_,
                                                                    prompt.ids, options, goes_on, pipeline));
    answers.push_back({prompt.text, tokenizer_->Decode(ids, true)});
  }
  return answers;
}

}  // namespace ftune
