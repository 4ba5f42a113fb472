// What words were tokenised to, shared by threads without locks: most words of a text have been seen before.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace ftune {

// A token of a word, and the bytes of the word it covers.
struct WordToken {
  int32_t id = 0;
  uint32_t begin = 0, end = 0;
};

// Filled up to a fixed number of words, then only read: what comes often comes early. Entries are written
// once and live as long as the cache.
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 128;  // longer words do not recur

  WordCache();
  ~WordCache();
  WordCache(const WordCache&) = delete;
  WordCache& operator=(const WordCache&) = delete;

  // False: not in the cache. The span lies in the cache.
  bool Find(std::string_view word, uint64_t hash, std::span<const WordToken>* tokens) const;
  void Insert(std::string_view word, uint64_t hash, std::span<const WordToken> tokens);

 private:
  struct Entry;
  std::unique_ptr<std::atomic<Entry*>[]> slots_;
};

}  // namespace ftune
