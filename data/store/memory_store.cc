#include "data/store/memory_store.h"

#include "base/error.h"

namespace ftune {

void MemoryTokenStore::Add(const Sample& sample, SampleInfo info) {
  info.length = sample.size();
  info.trained_tokens = sample.trained_tokens();
  samples_.push_back({info, tokens_.size()});
  for (size_t i = 0; i < sample.ids.size(); ++i) {
    tokens_.push_back(StoredToken::Make(sample.ids[i], sample.trained[i] != 0));
  }
}

void MemoryTokenStore::Append(const TokenBlock& block, int32_t entry, int64_t first_row) {
  const size_t first_token = tokens_.size();
  tokens_.insert(tokens_.end(), block.tokens.begin(), block.tokens.end());
  for (const SampleRecord& record : block.samples) {
    samples_.push_back({InfoOf(record, entry, first_row), first_token + record.begin});
  }
  for (DroppedRow dropped : block.dropped) {
    dropped.row += first_row;
    dropped_.push_back(std::move(dropped));
  }
}

std::span<const StoredToken> MemoryTokenStore::tokens(int64_t sample) const {
  const Entry& entry = samples_[static_cast<size_t>(sample)];
  return std::span(tokens_).subspan(entry.begin, static_cast<size_t>(entry.info.length));
}

absl::Status MemoryTokenStore::VisitDropped(const DroppedVisitor& visit) const {
  for (const DroppedRow& dropped : dropped_) FTUNE_RETURN_IF_ERROR(visit(dropped));
  return absl::OkStatus();
}

}  // namespace ftune
