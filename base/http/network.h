// What needs the libraries for HTTP and TLS: exchanges with one server, the digests of content, connections
// that are encrypted. They live in a library of their own, which is loaded only when one of them is due
// (network_library.h), so that starting ftune does not pay for them. Nothing here throws.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace ftune {

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case

  // "" where there is none.
  std::string Header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

enum class HttpFailure {
  kNone,
  kConnect,      // no connection: name, refusal, time-out
  kBroken,       // the connection broke, or nothing came for too long
  kTls,          // no common ground for encryption
  kCertificate,  // of the server, not trusted
  kTrustStore,   // the authorities' file cannot be read
  kCancelled,    // by a callback
};

struct ServerOptions {
  std::string origin;  // "https://host:8443"
  std::string proxy;   // "http://host:3128"; empty: none
  std::string proxy_user, proxy_password;
  std::string certificates;  // a file or folder of trusted authorities; empty: the system's
  int timeout_seconds = 10;  // without a connection, or without a byte
};

// Exchanges with one server, over a connection that is kept between them. For one thread.
class HttpConnection {
 public:
  virtual ~HttpConnection() = default;

  // GET of `target`. `on_head` is called once, then `on_body` for each piece; false ends the exchange.
  virtual HttpFailure Get(const std::string& target, const std::map<std::string, std::string>& headers,
                          const std::function<bool(const HttpHead&)>& on_head,
                          const std::function<bool(std::string_view)>& on_body) = 0;
};

class Digest {
 public:
  virtual ~Digest() = default;
  virtual void Add(std::string_view bytes) = 0;
  // In lower-case hexadecimal digits; once, at the end.
  virtual std::string Finish() = 0;
};

enum class DigestKind { kSha1, kSha256 };

// A certificate that was made for one run, with its key.
struct TlsIdentity {
  std::string certificate, key;  // PEM
  std::string fingerprint;       // SHA-256 of the certificate, in lower-case hexadecimal digits
};

class Network {
 public:
  virtual ~Network() = default;
  virtual std::unique_ptr<HttpConnection> Connect(const ServerOptions& options) = 0;
  virtual std::unique_ptr<Digest> NewDigest(DigestKind kind) = 0;
  // Of the libraries: "libcurl/7.88.1 OpenSSL/3.0.15 …".
  virtual std::string Version() const = 0;

  // Of a key that nobody else has; nothing where the system has no random numbers.
  virtual std::optional<TlsIdentity> NewTlsIdentity() = 0;
  // Carry bytes between two sockets, of which `encrypted` speaks TLS 1.3 and `plain` does not, until one of
  // them ends. → why they could not, else empty. The client speaks with whoever has the certificate of this
  // fingerprint, and with nobody else. The sockets do not block; shut down by another thread, they end it.
  // For threads that take no SIGPIPE.
  virtual std::string RelayAsServer(const TlsIdentity& identity, int encrypted, int plain) = 0;
  virtual std::string RelayAsClient(const std::string& fingerprint, int encrypted, int plain) = 0;
};

// What the library exports, by the name kNetworkSymbol.
using NetworkFunction = Network& (*)();
inline constexpr char kNetworkSymbol[] = "FtuneNetwork";

}  // namespace ftune
