// A sample: the tokens of one document or conversation, and which of them are learned.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ftune {

struct Sample {
  std::vector<int32_t> ids;
  std::vector<uint8_t> trained;  // as many as ids: 1 = the model learns to predict this token

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
  // Tokens that count in the loss: the first token of a sample is never predicted.
  int64_t trained_tokens() const {
    int64_t count = 0;
    for (size_t i = 1; i < trained.size(); ++i) count += trained[i];
    return count;
  }
};

}  // namespace ftune
