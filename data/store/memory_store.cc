#include "data/store/memory_store.h"

namespace ftune {

void MemoryTokenStore::Add(const Sample& sample, SampleInfo info) {
  info.length = sample.size();
  info.trained_tokens = sample.trained_tokens();
  samples_.push_back({info, tokens_.size()});
  for (size_t i = 0; i < sample.ids.size(); ++i) {
    tokens_.push_back(StoredToken::Make(sample.ids[i], sample.trained[i] != 0));
  }
}

std::span<const StoredToken> MemoryTokenStore::tokens(int64_t sample) const {
  const Entry& entry = samples_[static_cast<size_t>(sample)];
  return std::span(tokens_).subspan(entry.begin, static_cast<size_t>(entry.info.length));
}

}  // namespace ftune
