// Which tokens of a text are learned from, given which bytes are.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/tokenizer/tokenizer.h"

namespace ftune {

// A token is trained if it covers at least one byte of one of `spans` (sorted, disjoint) and begins inside
// that span, or before it with nothing but spaces: tokenizers put the space before a word into the word's
// token, so that "▁Yes" of "[/INST] Yes" is what the model has to say, while a token that also covers other
// words of the prompt is not. A token that runs out behind the span is trained. One without text before
// another (the "▁" that SentencePiece's tokenizers put before a text or behind a special token, where it is
// no part of the word's token) goes with that; any other without text (an added EOS) is not trained, nor is
// one that begins the text (an added BOS). Gives a 0 or 1 a token.
std::vector<uint8_t> TokensInSpans(std::string_view text, std::span<const TextSpan> tokens,
                                   std::span<const TextSpan> spans);

}  // namespace ftune
