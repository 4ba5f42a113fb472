// What is known of the models whose tokenizers come as tiktoken files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/added_tokens.h"

namespace ftune {

struct TiktokenEncoding {
  const char* pre_tokenizer = "";   // by its name in GGUF files (gguf_pre_tokenizer.h)
  std::vector<AddedToken> special;  // all of them `special`
  std::string bos, eos;             // empty: none
  bool add_bos = false;
};

// By a part of the file's name ("cl100k_base.tiktoken", "llama3.model"), else by the number of its tokens.
// Nothing if that is the name and number of none.
std::optional<TiktokenEncoding> FindTiktokenEncoding(std::string_view file_name, int64_t tokens);

// The names that FindTiktokenEncoding looks for, for a message.
std::string TiktokenEncodingNames();

}  // namespace ftune
