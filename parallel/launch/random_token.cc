#include "parallel/launch/random_token.h"

#include <cstdint>
#include <random>

namespace ftune {

std::string RandomToken() {
  std::random_device device;  // the system's
  std::string token;
  for (int i = 0; i < 4; ++i) {
    uint32_t bits = device();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4) token.push_back("0123456789abcdef"[bits & 15]);
  }
  return token;
}

}  // namespace ftune
