#include "base/http/proxy.h"

#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

struct Variable {
  std::string name, value;
};

std::optional<Variable> FirstOf(std::initializer_list<const char*> names,
                                const EnvironmentReader& environment) {
  for (const char* name : names) {
    if (std::optional<std::string> value = environment(name)) return Variable{name, *std::move(value)};
  }
  return std::nullopt;
}

std::optional<int> HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::string PercentDecode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && i + 2 < text.size();
    const std::optional<int> high = escape ? HexDigit(text[i + 1]) : std::nullopt;
    const std::optional<int> low = escape ? HexDigit(text[i + 2]) : std::nullopt;
    if (high && low) {
      decoded.push_back(static_cast<char>(*high * 16 + *low));
      i += 2;
    } else {
      decoded.push_back(text[i]);
    }
  }
  return decoded;
}

// Whether NO_PROXY's list names the host: "example.org" and ".example.org" stand for its sub-domains too.
bool IsExcepted(const Url& url, std::string_view list) {
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(", "), list.size());
    std::string entry = Lower(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
    if (entry == "*") return true;
    if (entry.starts_with('.')) entry.erase(0, 1);
    if (entry.empty()) continue;
    const auto matches = [&](const std::string& host) {
      return host == entry || host.ends_with("." + entry);
    };
    if (matches(url.host) || matches(StrCat(url.host, ":", url.port))) return true;
  }
  return false;
}

absl::StatusOr<Proxy> ParseProxy(const Variable& variable) {
  std::string text = variable.value;
  if (text.find("://") == std::string::npos) text = "http://" + text;
  Proxy proxy;
  const size_t begin = text.find("://") + 3;
  const size_t at = text.rfind('@', text.find('/', begin));
  if (at != std::string::npos && at >= begin) {
    const std::string login = text.substr(begin, at - begin);
    const size_t colon = std::min(login.find(':'), login.size());
    proxy.user = PercentDecode(std::string_view(login).substr(0, colon));
    proxy.password = PercentDecode(std::string_view(login).substr(std::min(colon + 1, login.size())));
    text.erase(begin, at + 1 - begin);
  }
  const std::optional<Url> url = ParseUrl(text);
  if (!url || url->scheme != "http") {
    // Not the value: it may hold a password.
    return UsageError({.key = variable.name,
                       .message = "the environment variable names no proxy that can be used",
                       .expected = "http://HOST:PORT"});
  }
  proxy.host = url->host;
  proxy.port = url->port;
  return proxy;
}

}  // namespace

absl::StatusOr<std::optional<Proxy>> ProxyFor(const Url& url, const EnvironmentReader& environment) {
  const std::optional<Variable> except = FirstOf({"no_proxy", "NO_PROXY"}, environment);
  if (except && IsExcepted(url, except->value)) return std::nullopt;
  std::optional<Variable> variable = url.scheme == "https"
                                         ? FirstOf({"https_proxy", "HTTPS_PROXY"}, environment)
                                         : FirstOf({"http_proxy", "HTTP_PROXY"}, environment);
  if (!variable) variable = FirstOf({"all_proxy", "ALL_PROXY"}, environment);
  if (!variable) return std::nullopt;
  return ParseProxy(*variable);
}

std::string CertificatePath(const EnvironmentReader& environment) {
  const std::optional<Variable> path =
      FirstOf({"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_DIR"}, environment);
  return path ? path->value : "";
}

}  // namespace ftune
