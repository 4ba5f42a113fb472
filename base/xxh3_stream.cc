#include "base/xxh3_stream.h"

#include <xxhash.h>

#include <new>

namespace ftune {
namespace {

Hash128 Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Hash128 bytes;
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), bytes.begin());
  return bytes;
}

}  // namespace

std::string HexOf(const Hash128& hash) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const uint8_t byte : hash) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

void Xxh3Stream::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Xxh3Stream::Xxh3Stream(Width width) : width_(width), state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  width == Width::k64 ? XXH3_64bits_reset(state_.get()) : XXH3_128bits_reset(state_.get());
}

void Xxh3Stream::Add(std::string_view bytes) {
  width_ == Width::k64 ? XXH3_64bits_update(state_.get(), bytes.data(), bytes.size())
                       : XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

uint64_t Xxh3Stream::Digest64() const { return XXH3_64bits_digest(state_.get()); }
Hash128 Xxh3Stream::Digest128() const { return Canonical(XXH3_128bits_digest(state_.get())); }

uint64_t Xxh3Of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
Hash128 Xxh3Of128(std::string_view bytes) { return Canonical(XXH3_128bits(bytes.data(), bytes.size())); }

}  // namespace ftune
