#include "data/tokenizer/tiktoken_encoding.h"

#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kEndOfText[] = "<|endoftext|>";

struct Known {
  std::string_view names[3];
  int64_t tokens = 0;  // in the file
  const char* pre_tokenizer = "";
  TiktokenEncoding (*special)(int64_t tokens) = nullptr;
};

void Add(TiktokenEncoding& encoding, int64_t id, std::string text) {
  encoding.special.push_back({.id = static_cast<int32_t>(id), .text = std::move(text), .special = true});
}

// Source: meta-llama/llama-models, models/llama3/tokenizer.py. They follow the file's tokens.
TiktokenEncoding Llama3(int64_t tokens) {
  constexpr int kSpecialTokens = 256;
  TiktokenEncoding encoding{.bos = "<|begin_of_text|>", .eos = "<|end_of_text|>", .add_bos = true};
  for (const char* text :
       {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
        "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>",
        "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>", "<|image|>"}) {
    Add(encoding, tokens++, text);
  }
  for (int i = 2; encoding.special.size() < kSpecialTokens; ++i)
    Add(encoding, tokens++, StrCat("<|reserved_special_token_", i, "|>"));
  return encoding;
}

// Source: QwenLM/Qwen, tokenization_qwen.py.
TiktokenEncoding Qwen(int64_t tokens) {
  constexpr int kExtraTokens = 205;
  TiktokenEncoding encoding{.eos = kEndOfText};
  for (const char* text : {kEndOfText, "<|im_start|>", "<|im_end|>"}) Add(encoding, tokens++, text);
  for (int i = 0; i < kExtraTokens; ++i) Add(encoding, tokens++, StrCat("<|extra_", i, "|>"));
  return encoding;
}

// Source of what follows: openai/tiktoken, tiktoken_ext/openai_public.py.
TiktokenEncoding Gpt2(int64_t) {
  TiktokenEncoding encoding{.eos = kEndOfText};
  Add(encoding, 50256, kEndOfText);
  return encoding;
}

TiktokenEncoding Cl100k(int64_t) {
  TiktokenEncoding encoding{.eos = kEndOfText};
  Add(encoding, 100257, kEndOfText);
  Add(encoding, 100258, "<|fim_prefix|>");
  Add(encoding, 100259, "<|fim_middle|>");
  Add(encoding, 100260, "<|fim_suffix|>");
  Add(encoding, 100276, "<|endofprompt|>");
  return encoding;
}

TiktokenEncoding O200k(int64_t) {
  TiktokenEncoding encoding{.eos = kEndOfText};
  Add(encoding, 199999, kEndOfText);
  Add(encoding, 200018, "<|endofprompt|>");
  return encoding;
}

constexpr Known kKnown[] = {
    {{"llama3", "llama-3"}, 128000, "llama-bpe", Llama3},
    {{"qwen"}, 151643, "qwen2", Qwen},
    {{"cl100k"}, 100256, "llama-bpe", Cl100k},
    {{"o200k"}, 199998, "gpt-4o", O200k},
    {{"p50k"}, 50280, "gpt-2", Gpt2},
    {{"r50k", "gpt2"}, 50256, "gpt-2", Gpt2},
};

bool IsNamed(const Known& known, const std::string& file_name) {
  for (const std::string_view name : known.names) {
    if (!name.empty() && file_name.find(name) != file_name.npos) return true;
  }
  return false;
}

}  // namespace

std::optional<TiktokenEncoding> FindTiktokenEncoding(std::string_view file_name, int64_t tokens) {
  const std::string name = Lower(std::string(file_name));
  const Known* found = nullptr;
  for (const Known& known : kKnown) {
    if (found == nullptr && IsNamed(known, name)) found = &known;
  }
  for (const Known& known : kKnown) {
    if (found == nullptr && known.tokens == tokens) found = &known;
  }
  if (found == nullptr) return std::nullopt;
  TiktokenEncoding encoding = found->special(tokens);
  encoding.pre_tokenizer = found->pre_tokenizer;
  return encoding;
}

std::string TiktokenEncodingNames() {
  std::string names;
  for (const Known& known : kKnown) StrAppend(names, names.empty() ? "" : ", ", known.names[0]);
  return names;
}

}  // namespace ftune
