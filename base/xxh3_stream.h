// XXH3 hashes of bytes that come piece by piece.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace ftune {

using Hash128 = std::array<uint8_t, 16>;  // as XXH128_canonicalFromHash has it
std::string HexOf(const Hash128& hash);

class Xxh3Stream {
 public:
  enum class Width { k64, k128 };
  explicit Xxh3Stream(Width width = Width::k64);
  void Add(std::string_view bytes);
  uint64_t Digest64() const;  // of k64
  Hash128 Digest128() const;  // of k128

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  Width width_;
  std::unique_ptr<XXH3_state_s, Free> state_;
};

uint64_t Xxh3Of(std::string_view bytes);
Hash128 Xxh3Of128(std::string_view bytes);

}  // namespace ftune
