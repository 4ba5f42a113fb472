#include "engine/model/tensor_split.h"

#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

Section Queries(const ModelConfig& c) { return {.parts = c.num_heads, .part_size = c.head_dim}; }
Section Keys(const ModelConfig& c) {
  return {.parts = c.num_kv_heads, .part_size = c.head_dim, .replicated = true};
}
Section Intermediate(const ModelConfig& c) { return {.parts = c.intermediate_size}; }

bool SharesKeys(const ModelConfig& c, int tensor) {
  return c.num_kv_heads % tensor == 0 || tensor % c.num_kv_heads == 0;
}

bool CanSplit(const ModelConfig& c, int tensor) {
  return c.num_heads % tensor == 0 && SharesKeys(c, tensor) && c.intermediate_size % tensor == 0 &&
         c.vocab_size >= tensor;
}

}  // namespace

absl::Status CheckTensorSplit(const ModelConfig& c, int tensor) {
  if (CanSplit(c, tensor)) return absl::OkStatus();
  std::vector<int> sizes;
  for (int size = 1; size <= c.num_heads; ++size) {
    if (CanSplit(c, size)) sizes.push_back(size);
  }
  const char* must = c.num_heads % tensor != 0 ? "attention heads must be a multiple of it"
                     : !SharesKeys(c, tensor)
                         ? "key/value heads must be a multiple of it, or it a multiple of them"
                     : c.intermediate_size % tensor != 0 ? "intermediate_size must be a multiple of it"
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

Dimension QueryDimension(const ModelConfig& c, const AxisPosition& position) {
  return {{Queries(c)}, position};
}

Dimension KeyDimension(const ModelConfig& c, const AxisPosition& position) { return {{Keys(c)}, position}; }

Dimension QkvDimension(const ModelConfig& c, const AxisPosition& position) {
  return {{Queries(c), Keys(c), Keys(c)}, position};
}

Dimension IntermediateDimension(const ModelConfig& c, const AxisPosition& position) {
  return {{Intermediate(c)}, position};
}

Dimension GateUpDimension(const ModelConfig& c, const AxisPosition& position) {
  return {{Intermediate(c), Intermediate(c)}, position};
}

Dimension VocabularyDimension(const ModelConfig& c, const AxisPosition& position) {
  return {{{.parts = c.vocab_size}}, position};
}

}  // namespace ftune
