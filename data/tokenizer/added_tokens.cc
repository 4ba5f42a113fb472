#include "data/tokenizer/added_tokens.h"

#include <algorithm>

#include "data/tokenizer/unicode_class.h"
#include "data/tokenizer/utf8.h"

namespace ftune {
namespace {

bool WordCharBefore(std::string_view text, size_t position) {
  if (position == 0) return false;
  size_t start = PreviousBoundary(text, position);
  return IsWordChar(NextChar(text, &start));
}

bool WordCharAt(std::string_view text, size_t position) {
  return position < text.size() && IsWordChar(NextChar(text, &position));
}

size_t SkipSpaceLeft(std::string_view text, size_t position) {
  while (position > 0) {
    const size_t start = PreviousBoundary(text, position);
    size_t next = start;
    if (!IsUnicodeSpace(NextChar(text, &next))) break;
    position = start;
  }
  return position;
}

size_t SkipSpaceRight(std::string_view text, size_t position) {
  while (position < text.size()) {
    size_t next = position;
    if (!IsUnicodeSpace(NextChar(text, &next))) break;
    position = next;
  }
  return position;
}

}  // namespace

void AddedTokenMatcher::Add(std::string_view text, const AddedToken* token) {
  trie_.Add(text, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
}

size_t AddedTokenMatcher::Longest(std::string_view text, size_t position, const AddedToken** token) const {
  size_t longest = 0;
  trie_.ForEachPrefix(text.substr(position), [&](size_t length, int32_t index) {
    longest = length;
    *token = tokens_[index];
  });
  return longest;
}

void AddedTokenMatcher::Split(std::string_view text, bool parse_special,
                              std::vector<TextSection>& sections) const {
  size_t done = 0;  // sections cover the text up to here
  size_t position = 0;
  while (position < text.size()) {
    const AddedToken* token = nullptr;
    const size_t length = Longest(text, position, &token);
    if (length == 0) {
      ++position;
      continue;
    }
    size_t begin = position;
    size_t end = position + length;
    position = end;
    if (token->special && !parse_special) continue;
    if (token->single_word && (WordCharBefore(text, begin) || WordCharAt(text, end))) continue;
    if (token->lstrip) begin = SkipSpaceLeft(text, begin);
    if (token->rstrip) end = SkipSpaceRight(text, end);
    // White space may have gone to the token before.
    begin = std::max(begin, done);
    end = std::max(end, begin);
    if (done < begin) sections.push_back({done, begin, nullptr});
    sections.push_back({begin, end, token});
    done = end;
  }
  if (done < text.size()) sections.push_back({done, text.size(), nullptr});
}

}  // namespace ftune
