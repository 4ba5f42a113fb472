// Names of an adapter's parameters: <module> and one of these, as PEFT has them.
#pragma once

#include <cstdint>
#include <string_view>

namespace ftune {

inline constexpr char kLoraA[] = ".lora_A.weight";                  // [r, in]
inline constexpr char kLoraB[] = ".lora_B.weight";                  // [out, r]
inline constexpr char kLoraMagnitude[] = ".lora_magnitude_vector";  // [out]
inline constexpr char kLoraEmbeddingA[] = ".lora_embedding_A";  // in memory [vocab, r], in files [r, vocab]
inline constexpr char kLoraEmbeddingB[] = ".lora_embedding_B";  // [hidden, r]

// Part of an adapter, not of the base.
inline bool IsAdapterParameter(std::string_view name) {
  for (const std::string_view part : {kLoraA, kLoraB, kLoraMagnitude, kLoraEmbeddingA, kLoraEmbeddingB}) {
    if (name.ends_with(part)) return true;
  }
  return false;
}

// FNV-1a: keeps the draws of parameters and sites apart by name, whatever their number or order.
inline uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

}  // namespace ftune
