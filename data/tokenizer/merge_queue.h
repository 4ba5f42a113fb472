// The merging of byte-pair encoding: neighbours are joined in order of rank until none can be. O(n log n) in
// the number of symbols, so that a "word" may be a whole document. Source: the heap of huggingface/tokenizers
// (models/bpe/word.rs), which Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units",
// 2016, defines by rescanning.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ftune {

struct MergeRule {
  uint32_t rank = 0;  // lowest first
  int32_t id = 0;     // of the token that the two become
};

// Bytes [begin, end) of the word. A symbol that was joined to its left neighbour is empty.
struct Symbol {
  int32_t id = 0;
  uint32_t begin = 0, end = 0;
  int32_t previous = -1, next = -1;  // indices of symbols, -1 for none
};

// The memory of a merge, kept from word to word.
struct MergeScratch {
  struct Candidate {
    uint32_t rank;
    int32_t left;  // index of the left symbol
    int32_t id;
    // Lowest rank first, ties by position.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

// Merges scratch.symbols (ids and bytes set, less than 2^31 of them). rule(left, right) gives the MergeRule
// of two neighbours, or nullptr. Afterwards the symbols that are not empty are the result, in order.
template <typename Rule>
void MergeSymbols(MergeScratch& scratch, const Rule& rule) {
  std::vector<Symbol>& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  heap.clear();
  const int32_t count = static_cast<int32_t>(symbols.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols[i].previous = i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : -1;
  }
  for (int32_t i = 0; i + 1 < count; ++i) {
    if (const MergeRule* merge = rule(symbols[i], symbols[i + 1]))
      heap.push_back({merge->rank, i, merge->id});
  }
  std::make_heap(heap.begin(), heap.end());
  const auto push = [&](int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    if (const MergeRule* merge = rule(symbols[left], symbols[right])) {
      heap.push_back({merge->rank, left, merge->id});
      std::push_heap(heap.begin(), heap.end());
    }
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const MergeScratch::Candidate top = heap.back();
    heap.pop_back();
    Symbol& left = symbols[top.left];
    if (left.begin == left.end || left.next < 0) continue;
    Symbol& right = symbols[left.next];
    const MergeRule* merge = rule(left, right);
    if (merge == nullptr || merge->id != top.id) continue;  // one of the two has changed since
    left.id = top.id;
    left.end = right.end;
    left.next = right.next;
    right.end = right.begin;
    if (right.next >= 0) symbols[right.next].previous = top.left;
    push(left.previous, top.left);
    push(top.left, left.next);
  }
}

}  // namespace ftune
