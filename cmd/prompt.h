// Prompts as tokens, and what a model answers to them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"
#include "engine/backend/backend.h"
#include "engine/model/model.h"
#include "engine/train/generate.h"

namespace ftune {

// `message` as a user's, up to where the assistant begins.
absl::StatusOr<std::vector<int32_t>> ChatPrompt(const std::string& message, const ChatTemplate& chat_template,
                                                const Tokenizer& tokenizer);

// Where an answer ends: the model's and the tokenizer's ends of text.
std::vector<int32_t> StopIds(const ModelConfig& config, const Tokenizer& tokenizer);

struct PromptAnswer {
  std::string prompt;
  std::string text;
};

// A recipe's prompts, answered greedily again and again as the model learns.
class PromptSampler {
 public:
  // Prompts are a user's messages where there is a template, and plain text where it is null. All outlive the
  // sampler. An error names the prompt that does not fit `max_length` tokens.
  static absl::StatusOr<PromptSampler> Create(const std::vector<std::string>& prompts, int64_t max_new_tokens,
                                              int64_t max_length, const Tokenizer& tokenizer,
                                              const ChatTemplate* chat_template);

  // `pipeline` as for Generate; `on_token` is called for each token that comes.
  absl::StatusOr<std::vector<PromptAnswer>> Answer(Backend& backend, Stream stream, Model& model,
                                                   Pipeline* pipeline,
                                                   const std::function<void()>& on_token) const;
  bool empty() const { return prompts_.empty(); }

 private:
  struct Prompt {
    std::string text;
    std::vector<int32_t> ids;
  };
  explicit PromptSampler(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  const Tokenizer* tokenizer_;
  std::vector<Prompt> prompts_;
  int64_t max_new_tokens_ = 0;
  int64_t max_length_ = 0;
};

}  // namespace ftune
