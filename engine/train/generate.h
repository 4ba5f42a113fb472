// Text generation with a KV cache: greedy, or sampled with temperature and nucleus (Holtzman et al., "The
// curious case of neural text degeneration", 2020).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/pipeline/pipeline.h"

namespace ftune {

struct GenerateOptions {
  int64_t max_new_tokens = 256;
  double temperature = 0.0;  // 0: greedy
  double top_p = 1.0;
  uint64_t seed = 42;
  std::vector<int32_t> stop_ids;
};

// The token to follow, from `logits` [vocab]; `index` counts the tokens of the text and keys the draw.
int32_t SampleToken(std::vector<float>& logits, const GenerateOptions& options, uint64_t index);

// New tokens, the stop token included where one came. on_token, where given, sees each as it comes and may
// return false to stop. The prompt and the new tokens together must fit `max_length`, the length that the
// model was made for. `pipeline` has the rank's place where the model is not whole; then all its ranks call
// this alike, and get the same.
absl::StatusOr<std::vector<int32_t>> Generate(Backend& backend, Stream stream, Model& model,
                                              int64_t max_length, const std::vector<int32_t>& prompt,
                                              const GenerateOptions& options,
                                              const std::function<bool(int32_t)>& on_token,
                                              Pipeline* pipeline = nullptr);

// Logits [tokens, vocab] of each position of one text, on the host; none where the model's hooks have failed.
std::vector<float> AllLogits(Backend& backend, Stream stream, Model& model, const std::vector<int32_t>& ids);

}  // namespace ftune
