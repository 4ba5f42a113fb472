#include "data/tokenizer/word_cache.h"

#include <cstring>
#include <new>

namespace ftune {
namespace {

constexpr size_t kSlots = 1 << 17;
constexpr size_t kProbes = 4;

}  // namespace

// Followed in memory by its tokens and its word.
struct WordCache::Entry {
  uint64_t hash;
  uint32_t word_size;
  uint32_t token_count;

  WordToken* tokens() { return reinterpret_cast<WordToken*>(this + 1); }
  char* word() { return reinterpret_cast<char*>(tokens() + token_count); }
};

WordCache::WordCache() : slots_(new std::atomic<Entry*>[kSlots]()) {}

WordCache::~WordCache() {
  for (size_t i = 0; i < kSlots; ++i) ::operator delete(slots_[i].load(std::memory_order_relaxed));
}

bool WordCache::Find(std::string_view word, uint64_t hash, std::span<const WordToken>* tokens) const {
  for (size_t probe = 0; probe < kProbes; ++probe) {
    Entry* entry = slots_[(hash + probe) % kSlots].load(std::memory_order_acquire);
    if (entry == nullptr) return false;
    if (entry->hash == hash && std::string_view(entry->word(), entry->word_size) == word) {
      *tokens = {entry->tokens(), entry->token_count};
      return true;
    }
  }
  return false;
}

void WordCache::Insert(std::string_view word, uint64_t hash, std::span<const WordToken> tokens) {
  for (size_t probe = 0; probe < kProbes; ++probe) {
    std::atomic<Entry*>& slot = slots_[(hash + probe) % kSlots];
    if (slot.load(std::memory_order_relaxed) != nullptr) continue;
    auto* entry = new (::operator new(sizeof(Entry) + tokens.size_bytes() + word.size()))
        Entry{hash, static_cast<uint32_t>(word.size()), static_cast<uint32_t>(tokens.size())};
    if (!tokens.empty()) std::memcpy(entry->tokens(), tokens.data(), tokens.size_bytes());
    std::memcpy(entry->word(), word.data(), word.size());
    Entry* expected = nullptr;
    if (slot.compare_exchange_strong(expected, entry, std::memory_order_release, std::memory_order_relaxed))
      return;
    ::operator delete(entry);  // another thread was first
  }
}

}  // namespace ftune
