// What a GGUF file begins with and may hold (ggml's docs/gguf.md).
#pragma once

#include <cstdint>
#include <string_view>

namespace ftune::gguf {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr uint32_t kMinVersion = 2;
inline constexpr uint32_t kVersion = 3;
inline constexpr uint32_t kMaxDims = 4;           // GGML_MAX_DIMS
inline constexpr int64_t kDefaultAlignment = 32;  // bytes, where the file does not say
inline constexpr char kAlignmentKey[] = "general.alignment";

}  // namespace ftune::gguf
