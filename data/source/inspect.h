// Samples shown to a person: every token, and whether it is trained.
#pragma once

#include <span>
#include <string>

#include "data/loader/batch.h"
#include "data/store/token_store.h"
#include "data/tokenizer/tokenizer.h"

namespace ftune {

// The sample's text, ending with a line that marks the end of its segment and counts its tokens. Line ends
// are shown as "⏎" and a new line; control characters as \x1b, so that data cannot command the terminal. What
// is not trained includes the first token, which nothing predicts.
//
// In colour (ANSI): trained tokens green, others grey, neighbours in two shades, so that tokens can be told
// apart; special tokens reversed. Plain: trained runs in [[ ]], special tokens in ⟨ ⟩.
std::string RenderSample(std::span<const StoredToken> sample, const Tokenizer& tokenizer, bool colour);

// The samples of one pack of a batch, one after another, and its unfilled tail.
std::string RenderPack(const Batch& batch, int64_t pack, const Tokenizer& tokenizer, bool colour);

}  // namespace ftune
