#include "data/source/trained_tokens.h"

#include <algorithm>

namespace ftune {

std::vector<uint8_t> TokensInSpans(std::string_view text, std::span<const TextSpan> tokens,
                                   std::span<const TextSpan> spans) {
  std::vector<uint8_t> trained;
  trained.reserve(tokens.size());
  for (const TextSpan& token : tokens) {
    // The first span that ends behind the token's begin is the only one that the token can begin in or run
    // into first.
    const auto span = std::upper_bound(spans.begin(), spans.end(), token.begin,
                                       [](int64_t begin, const TextSpan& s) { return begin < s.end; });
    bool inside = token.begin < token.end && span != spans.end() && span->begin < token.end;
    for (int64_t i = token.begin; inside && i < span->begin; ++i) inside = text[i] == ' ';
    trained.push_back(inside);
  }
  for (size_t i = tokens.size(); i-- > 2;) {
    const TextSpan& token = tokens[i - 1];
    if (token.begin == token.end && tokens[i].begin == token.begin) trained[i - 1] = trained[i];
  }
  return trained;
}

}  // namespace ftune
