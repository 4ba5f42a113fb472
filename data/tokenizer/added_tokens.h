// Tokens that are cut out of the text before anything else happens to it: control tokens and what users have
// added.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/byte_trie.h"

namespace ftune {

struct AddedToken {
  int32_t id = 0;
  std::string text;
  bool single_word = false;  // only where no word character stands beside it
  bool lstrip = false;       // takes the white space on its left with it
  bool rstrip = false;
  bool normalized = false;  // looked for in the normalised text
  bool special = false;     // skipped when decoding, and text when EncodeOptions::parse_special is false
};

// A piece of text: a token, or what lies between.
struct TextSection {
  size_t begin = 0, end = 0;
  const AddedToken* token = nullptr;
};

// Finds a set of tokens in text: the leftmost match, the longest of those, without overlap.
class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  // `text`: what is looked for, which for a normalised token is not token->text. Empty text is not looked
  // for. The token outlives the matcher; a text that is there already keeps its token.
  void Add(std::string_view text, const AddedToken* token);

  // Appends sections that cover `text`, in order, none of them empty unless it is a token's.
  void Split(std::string_view text, bool parse_special, std::vector<TextSection>& sections) const;

 private:
  // Bytes of text at `position` that match the longest token, 0 if none.
  size_t Longest(std::string_view text, size_t position, const AddedToken** token) const;

  ByteTrie trie_;  // of indices into tokens_
  std::vector<const AddedToken*> tokens_;
};

}  // namespace ftune
