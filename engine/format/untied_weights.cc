#include "engine/format/untied_weights.h"

#include <algorithm>
#include <utility>

namespace ftune {
namespace {

class UntiedWeights final : public WeightSource {
 public:
  UntiedWeights(std::unique_ptr<WeightSource> tied, const std::string& embedding_name,
                const std::string& head_name)
      : tied_(std::move(tied)), tensors_(tied_->tensors()) {
    if (const SourceTensor* embedding = tied_->Find(embedding_name)) {
      SourceTensor head = *embedding;
      head.name = head_name;
      const auto place =
          std::lower_bound(tensors_.begin(), tensors_.end(), head,
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

std::unique_ptr<WeightSource> UntieHead(std::unique_ptr<WeightSource> weights, const std::string& embedding,
                                        const std::string& head) {
  return std::make_unique<UntiedWeights>(std::move(weights), embedding, head);
}

}  // namespace ftune
