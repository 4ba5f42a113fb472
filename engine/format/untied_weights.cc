#include "engine/format/untied_weights.h"

#include <algorithm>
#include <utility>

namespace ftune {
namespace {

constexpr char kEmbedding[] = "model.embed_tokens.weight";
constexpr char kHead[] = "lm_head.weight";

class UntiedWeights final : public WeightSource {
 public:
  explicit UntiedWeights(std::unique_ptr<WeightSource> tied) : tied_(std::move(tied)), tensors_(tied_->tensors()) {
    if (const SourceTensor* embedding = tied_->Find(kEmbedding)) {
      SourceTensor head = *embedding;
      head.name = kHead;
      const auto place = std::lower_bound(
          tensors_.begin(), tensors_.end(), head,
          [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
      tensors_.insert(place, std::move(head));
    }
  }
  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  void Release(const SourceTensor& tensor) const override { tied_->Release(tensor); }

 private:
  std::unique_ptr<WeightSource> tied_;
  std::vector<SourceTensor> tensors_;
};

}  // namespace

std::unique_ptr<WeightSource> UntieHead(std::unique_ptr<WeightSource> weights) {
  return std::make_unique<UntiedWeights>(std::move(weights));
}

}  // namespace ftune
