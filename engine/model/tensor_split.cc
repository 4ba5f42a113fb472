#include "engine/model/tensor_split.h"

#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

// Rows that stay together where shares of the intermediate size are uneven anyway, so that more quantised
// weights can be cut: what NF4 quantises together, and GGUF's smaller blocks.
constexpr int64_t kIntermediateGroup = 64;

// Query heads that share a key/value head stay together as long as those are enough for all ranks; shares
// then may be uneven. With fewer, ranks share key/value heads, and each has as many query heads.
Section Queries(const ModelConfig& c, int tensor) {
  if (tensor > c.num_kv_heads) return {.parts = c.num_heads, .part_size = c.head_dim};
  return {.parts = c.num_kv_heads, .part_size = c.num_heads / c.num_kv_heads * c.head_dim};
}

Section Keys(const ModelConfig& c) {
  return {.parts = c.num_kv_heads, .part_size = c.head_dim, .replicated = true};
}

Section Intermediate(const ModelConfig& c, int tensor) {
  const int64_t group =
      c.intermediate_size % tensor == 0 ? 1 : std::gcd(c.intermediate_size, kIntermediateGroup);
  if (c.intermediate_size / group < tensor) return {.parts = c.intermediate_size};
  return {.parts = c.intermediate_size / group, .part_size = group};
}

bool SharesHeads(const ModelConfig& c, int tensor) {
  return tensor <= c.num_kv_heads || (tensor % c.num_kv_heads == 0 && c.num_heads % tensor == 0);
}

bool CanSplit(const ModelConfig& c, int tensor) {
  return SharesHeads(c, tensor) && c.intermediate_size >= tensor && c.vocab_size >= tensor;
}

double LargestOverMean(const Dimension& dimension, int ranks) {
  return static_cast<double>(dimension.largest_local_size()) * ranks / static_cast<double>(dimension.size());
}

}  // namespace

absl::Status CheckTensorSplit(const ModelConfig& c, int tensor) {
  if (CanSplit(c, tensor)) return absl::OkStatus();
  std::vector<int> sizes;
  for (int size = 1; size <= c.num_heads; ++size) {
    if (CanSplit(c, size)) sizes.push_back(size);
  }
  const char* must =
      !SharesHeads(c, tensor)
          ? "it must be at most the key/value heads, or a multiple of them that divides the heads"
      : c.intermediate_size < tensor ? "intermediate_size must be at least as large"
                                     : "there must be as many tokens in the vocabulary";
  return UsageError(
      {.key = "parallel.tensor",
       .message = StrCat("the model cannot be split over ", tensor, " ranks: ", must, ". It has ",
                         c.num_heads, " heads, ", c.num_kv_heads, " key/value heads, intermediate_size ",
                         c.intermediate_size, " and ", c.vocab_size, " tokens"),
       .found = StrCat(tensor),
       .expected = StrCat("one of ", StrJoin(sizes, ", ")),
       .hint = "use more ranks on parallel.data instead"});
}

TensorShares LargestTensorShares(const ModelConfig& c, int tensor) {
  const AxisPosition first = {0, tensor};
  return {.heads = LargestOverMean(QueryDimension(c, first), tensor),
          .intermediate = LargestOverMean(IntermediateDimension(c, first), tensor)};
}

Dimension QueryDimension(const ModelConfig& c, const AxisPosition& position) {
  return {{Queries(c, position.size)}, position};
}

Dimension KeyDimension(const ModelConfig& c, const AxisPosition& position) { return {{Keys(c)}, position}; }

Dimension QkvDimension(const ModelConfig& c, const AxisPosition& position) {
  return {{Queries(c, position.size), Keys(c), Keys(c)}, position};
}

Dimension IntermediateDimension(const ModelConfig& c, const AxisPosition& position) {
  return {{Intermediate(c, position.size)}, position};
}

Dimension GateUpDimension(const ModelConfig& c, const AxisPosition& position) {
  return {{Intermediate(c, position.size), Intermediate(c, position.size)}, position};
}

Dimension VocabularyDimension(const ModelConfig& c, const AxisPosition& position) {
  return {{{.parts = c.vocab_size}}, position};
}

}  // namespace ftune
