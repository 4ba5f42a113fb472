// Text of ids that come one by one, as they do from a model.
#pragma once

#include <cstdint>
#include <string>

namespace ftune {

// Work per id does not grow with the number of ids. Nothing that was given out changes by what follows: a
// character whose bytes come in several tokens is held back until it is whole. All that was given out
// together is what Tokenizer::Decode makes of all ids.
class TextDecoder {
 public:
  virtual ~TextDecoder() = default;
  // The text that is certain now and was not before; may be empty.
  virtual std::string Push(int32_t id) = 0;
  // The rest. The decoder is used up.
  virtual std::string Finish() = 0;
};

}  // namespace ftune
