#include "data/store/token_store.h"

namespace ftune {

Sample CopySample(std::span<const StoredToken> tokens) {
  Sample sample;
  for (const StoredToken token : tokens) {
    sample.ids.push_back(token.id());
    sample.trained.push_back(token.trained());
  }
  return sample;
}

}  // namespace ftune
