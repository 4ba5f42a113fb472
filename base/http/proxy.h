// Proxies and certificates as environment variables name them, the way curl and Python's clients read them.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/environment.h"
#include "base/http/url.h"

namespace ftune {

struct Proxy {
  std::string host;
  int port = 0;
  std::string user, password;  // decoded
};

// HTTPS_PROXY or HTTP_PROXY by the scheme, else ALL_PROXY, each in lower case too; nothing where NO_PROXY
// names the host, one of its domains or "*". An error where the variable's value is no address.
absl::StatusOr<std::optional<Proxy>> ProxyFor(const Url& url, const EnvironmentReader& environment);

// The file or folder of the authorities that are trusted: SSL_CERT_FILE, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE
// or SSL_CERT_DIR; empty: the system's.
std::string CertificatePath(const EnvironmentReader& environment);

}  // namespace ftune
