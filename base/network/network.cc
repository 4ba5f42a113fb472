// What the library exports: see base/http/network.h.

#include "base/http/network.h"

#include <curl/curl.h>

#include <memory>
#include <optional>
#include <string>

#include "base/network/curl_connection.h"
#include "base/network/evp_digest.h"
#include "base/network/tls_relay.h"

namespace ftune {
namespace {

class CurlNetwork final : public Network {
 public:
  CurlNetwork() { curl_global_init(CURL_GLOBAL_DEFAULT); }

  std::unique_ptr<HttpConnection> Connect(const ServerOptions& options) override {
    return std::make_unique<CurlConnection>(options);
  }
  std::unique_ptr<Digest> NewDigest(DigestKind kind) override {
    return std::make_unique<EvpDigest>(kind == DigestKind::kSha1 ? EVP_sha1() : EVP_sha256());
  }
  std::string Version() const override { return curl_version(); }
  std::optional<TlsIdentity> NewTlsIdentity() override { return MakeTlsIdentity(); }
  std::string RelayAsServer(const TlsIdentity& identity, int encrypted, int plain) override {
    return RelayTlsAsServer(identity, encrypted, plain);
  }
  std::string RelayAsClient(const std::string& fingerprint, int encrypted, int plain) override {
    return RelayTlsAsClient(fingerprint, encrypted, plain);
  }
};

}  // namespace
}  // namespace ftune

extern "C" __attribute__((visibility("default"))) ftune::Network& FtuneNetwork() {
  static ftune::CurlNetwork network;
  return network;
}
