// HTTP and TLS by cpp-httplib, digests by OpenSSL: see base/http/network.h.

#include <httplib.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>

#include "base/http/network.h"

namespace ftune {
namespace {

HttpFailure ToFailure(httplib::Error error) {
  switch (error) {
    case httplib::Error::Success:
      return HttpFailure::kNone;
    case httplib::Error::Connection:
    case httplib::Error::BindIPAddress:
    case httplib::Error::ConnectionTimeout:
      return HttpFailure::kConnect;
    case httplib::Error::SSLConnection:
      return HttpFailure::kTls;
    case httplib::Error::SSLServerVerification:
      return HttpFailure::kCertificate;
    case httplib::Error::SSLLoadingCerts:
      return HttpFailure::kTrustStore;
    case httplib::Error::Canceled:
      return HttpFailure::kCancelled;
    default:
      return HttpFailure::kBroken;
  }
}

HttpHead ToHead(const httplib::Response& response) {
  HttpHead head{.status = response.status};
  for (const auto& [name, value] : response.headers) {
    std::string lower = name;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    head.headers.emplace(std::move(lower), value);
  }
  return head;
}

bool IsFolder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

class HttplibConnection final : public HttpConnection {
 public:
  explicit HttplibConnection(const ServerOptions& options) {
    if (options.scheme == "https") {
      client_ = std::make_unique<httplib::SSLClient>(options.host, options.port);
      const bool folder = IsFolder(options.certificates);
      client_->set_ca_cert_path(folder ? "" : options.certificates, folder ? options.certificates : "");
      client_->enable_server_certificate_verification(true);
    } else {
      client_ = std::make_unique<httplib::ClientImpl>(options.host, options.port);
    }
    client_->set_keep_alive(true);
    client_->set_follow_location(false);
    client_->set_url_encode(false);  // targets come encoded
    client_->set_decompress(false);
    client_->set_tcp_nodelay(true);
    client_->set_connection_timeout(options.timeout_seconds);
    client_->set_read_timeout(options.timeout_seconds);
    client_->set_write_timeout(options.timeout_seconds);
    if (options.proxy_host.empty()) return;
    client_->set_proxy(options.proxy_host, options.proxy_port);
    if (!options.proxy_user.empty())
      client_->set_proxy_basic_auth(options.proxy_user, options.proxy_password);
  }

  HttpFailure Get(const std::string& target, const std::map<std::string, std::string>& headers,
                  const std::function<bool(const HttpHead&)>& on_head,
                  const std::function<bool(std::string_view)>& on_body) override {
    try {
      const httplib::Result result = client_->Get(
          target, httplib::Headers(headers.begin(), headers.end()),
          [&](const httplib::Response& response) { return on_head(ToHead(response)); },
          [&](const char* data, size_t size) { return on_body(std::string_view(data, size)); });
      return ToFailure(result.error());
    } catch (const std::exception&) {
      return HttpFailure::kBroken;  // a response that the library cannot read
    }
  }

 private:
  std::unique_ptr<httplib::ClientImpl> client_;
};

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

class HttplibNetwork final : public Network {
 public:
  std::unique_ptr<HttpConnection> Connect(const ServerOptions& options) override {
    return std::make_unique<HttplibConnection>(options);
  }
  std::unique_ptr<Digest> NewDigest(DigestKind kind) override {
    return std::make_unique<EvpDigest>(kind == DigestKind::kSha1 ? EVP_sha1() : EVP_sha256());
  }
};

}  // namespace
}  // namespace ftune

extern "C" __attribute__((visibility("default"))) ftune::Network& FtuneNetwork() {
  static ftune::HttplibNetwork network;
  return network;
}
