// Addresses of the web, as far as a client needs them (RFC 3986).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ftune {

struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;    // lower case; an IPv6 address without its brackets
  int port = 0;
  std::string target;  // path and query, as sent: begins with '/'; no fragment

  // "https://host" or "https://host:8443", IPv6 in brackets.
  std::string origin() const;
  std::string text() const { return origin() + target; }
};

// Nothing where `text` is not an http or https address, has a user's name in it, or characters that a request
// line cannot hold.
std::optional<Url> ParseUrl(std::string_view text);

// Where a redirect from `from` leads: `location` is an address, or one without scheme, host or folder.
std::optional<Url> ResolveUrl(const Url& from, std::string_view location);

inline bool SameOrigin(const Url& a, const Url& b) {
  return a.scheme == b.scheme && a.host == b.host && a.port == b.port;
}

// All but letters, digits, "-._~" and the characters of `keep` as %XX.
std::string PercentEncode(std::string_view text, std::string_view keep = "");

}  // namespace ftune
