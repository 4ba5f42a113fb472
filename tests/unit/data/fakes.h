// Small stand-ins for the tokenizer and the chat template, whose every token and span can be told by eye.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/sample.h"
#include "data/template/chat_template.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

// Bytes are ids 0 to 255; then longer words, then special tokens. The longest that matches is taken.
class GreedyTokenizer : public Tokenizer {
 public:
  explicit GreedyTokenizer(std::vector<std::string> words = {}, bool adds_bos = false)
      : words_(std::move(words)),
        first_special_(256 + static_cast<int32_t>(words_.size())),
        adds_bos_(adds_bos) {
    for (const char* text : {"<s>", "</s>", "<|im_start|>", "<|im_end|>"}) words_.push_back(text);
    special_.bos = SpecialToken{"<s>", first_special_};
    special_.eos = SpecialToken{"</s>", first_special_ + 1};
  }

  Encoding Encode(std::string_view text, const EncodeOptions& options) const override {
    Encoding result;
    const auto add = [&](int32_t id, size_t begin, size_t end) {
      result.ids.push_back(id);
      result.spans.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
    };
    if (options.add_special_tokens && adds_bos_) add(first_special_, 0, 0);
    for (size_t at = 0; at < text.size();) {
      int32_t best = static_cast<unsigned char>(text[at]);
      size_t length = 1;
      for (size_t w = 0; w < words_.size(); ++w) {
        if (words_[w].size() > length && text.substr(at).starts_with(words_[w])) {
          best = 256 + static_cast<int32_t>(w);
          length = words_[w].size();
        }
      }
      add(best, at, at + length);
      at += length;
    }
    return result;
  }
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (!skip_special || !IsSpecial(id)) text += IdToToken(id);
    }
    return text;
  }
  std::unique_ptr<TextDecoder> MakeDecoder(bool skip_special) const override {
    class ById : public TextDecoder {
     public:
      ById(const GreedyTokenizer& tokenizer, bool skip_special)
          : tokenizer_(tokenizer), skip_special_(skip_special) {}
      std::string Push(int32_t id) override { return tokenizer_.Decode(std::span(&id, 1), skip_special_); }
      std::string Finish() override { return ""; }

     private:
      const GreedyTokenizer& tokenizer_;
      bool skip_special_;
    };
    return std::make_unique<ById>(*this, skip_special);
  }
  int64_t vocab_size() const override { return 256 + static_cast<int64_t>(words_.size()); }
  std::optional<int32_t> TokenToId(std::string_view token) const override {
    if (token.size() == 1) return static_cast<unsigned char>(token[0]);
    const auto word = std::find(words_.begin(), words_.end(), token);
    if (word == words_.end()) return std::nullopt;
    return 256 + static_cast<int32_t>(word - words_.begin());
  }
  std::string IdToToken(int32_t id) const override {
    if (id < 0 || id >= vocab_size()) return "";
    return id < 256 ? std::string(1, static_cast<char>(id)) : words_[static_cast<size_t>(id - 256)];
  }
  bool IsSpecial(int32_t id) const override { return id >= first_special_ && id < vocab_size(); }

 private:
  std::vector<std::string> words_;
  int32_t first_special_;
  bool adds_bos_;
};

// ChatML: <|im_start|>ROLE\nCONTENT<|im_end|>\n for each message. Refuses a content "boom", as
// raise_exception does.
class ChatMl : public ChatTemplate {
 public:
  absl::StatusOr<std::string> Render(const ChatInput& input) const override {
    FTUNE_ASSIGN_OR_RETURN(RenderedChat chat, RenderTurns(input));
    return chat.text;
  }
  absl::StatusOr<RenderedChat> RenderWithSpans(const ChatInput& input,
                                               std::span<const uint8_t> wanted) const override {
    RenderedChat chat;
    for (size_t i = 0; i < input.messages.size(); ++i) {
      const OrderedJson& message = input.messages[i];
      const auto role = message.at("role").get<std::string>();
      const auto content = message.at("content").get<std::string>();
      if (content == "boom") return absl::InvalidArgumentError("template:3: error: no boom please");
      const auto turn_begin = static_cast<int64_t>(chat.text.size());
      chat.text += "<|im_start|>" + role + "\n";
      const auto begin = static_cast<int64_t>(chat.text.size());
      chat.text += content;
      if (message.contains("tool_calls")) chat.text += message.at("tool_calls").dump();
      chat.text += "<|im_end|>";
      if (wanted[i]) {
        chat.spans.push_back({static_cast<int>(i), {begin, static_cast<int64_t>(chat.text.size())}});
      }
      chat.text += "\n";
      chat.turns.push_back({static_cast<int>(i), {turn_begin, static_cast<int64_t>(chat.text.size())}});
    }
    return chat;
  }
  absl::StatusOr<RenderedChat> RenderTurns(const ChatInput& input) const override {
    return RenderWithSpans(input, std::vector<uint8_t>(input.messages.size(), 0));
  }
};

// The text of the tokens that are trained.
inline std::string TrainedText(const Sample& sample, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < sample.ids.size(); ++i) {
    if (sample.trained[i]) ids.push_back(sample.ids[i]);
  }
  return tokenizer.Decode(ids, false);
}

}  // namespace ftune
