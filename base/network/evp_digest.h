// Digests by OpenSSL: see base/http/network.h.
#pragma once

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/http/network.h"

namespace ftune {

class EvpDigest final : public Digest {
 public:
  explicit EvpDigest(const EVP_MD* kind) : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    EVP_DigestInit_ex(context_.get(), kind, nullptr);
  }
  void Add(std::string_view bytes) override { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  std::string Finish() override {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    EVP_DigestFinal_ex(context_.get(), bytes, &size);
    constexpr char kDigits[] = "0123456789abcdef";
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) {
      hex.push_back(kDigits[bytes[i] >> 4]);
      hex.push_back(kDigits[bytes[i] & 15]);
    }
    return hex;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace ftune
