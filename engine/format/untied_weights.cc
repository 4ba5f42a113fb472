#include "engine/format/untied_weights.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ftune {
namespace {

class UntiedWeights final : public WeightSource {
 public:
  UntiedWeights(std::unique_ptr<WeightSource> tied, const std::string& embedding_name,
                const std::string& head_name)
      : tied_(std::move(tied)), embedding_(tied_->Find(embedding_name)), tensors_(tied_->tensors()) {
    if (embedding_ != nullptr) {
      SourceTensor head = *embedding_;
      head.name = head_name;
      const auto place =
          std::lower_bound(tensors_.begin(), tensors_.end(), head,
                           [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
      tensors_.insert(place, std::move(head));
    }
  }
  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  absl::StatusOr<SourceTensor> Fetch(const SourceTensor& tensor) const override {
    FTUNE_ASSIGN_OR_RETURN(SourceTensor fetched, tied_->Fetch(TiedOf(tensor)));
    fetched.name = tensor.name;
    return fetched;
  }
  void Release(const SourceTensor& tensor) const override { tied_->Release(TiedOf(tensor)); }

 private:
  const SourceTensor& TiedOf(const SourceTensor& tensor) const {
    const SourceTensor* own = tied_->Find(tensor.name);
    return own != nullptr ? *own : *embedding_;
  }

  std::unique_ptr<WeightSource> tied_;
  const SourceTensor* embedding_;  // of tied_
  std::vector<SourceTensor> tensors_;
};

}  // namespace

std::unique_ptr<WeightSource> UntieHead(std::unique_ptr<WeightSource> weights, const std::string& embedding,
                                        const std::string& head) {
  return std::make_unique<UntiedWeights>(std::move(weights), embedding, head);
}

}  // namespace ftune
