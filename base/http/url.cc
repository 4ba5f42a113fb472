#include "base/http/url.h"

#include <algorithm>
#include <charconv>

#include "base/strings.h"

namespace ftune {
namespace {

constexpr int kHttpPort = 80, kHttpsPort = 443;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool IsHostCharacter(char c) { return IsAlphanumeric(c) || c == '-' || c == '.' || c == '_'; }
bool IsAddressCharacter(char c) { return IsAlphanumeric(c) || c == ':' || c == '.'; }

// Neither blanks nor control characters, which would end the request line, nor what must be encoded.
bool IsTargetCharacter(char c) { return c > ' ' && c < 0x7F; }

std::optional<int> ParsePort(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535)
    return std::nullopt;
  return port;
}

// HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT.
bool ParseAuthority(std::string_view text, Url& url) {
  url.port = url.scheme == "https" ? kHttpsPort : kHttpPort;
  std::string_view host = text, port;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return false;
    host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (!std::all_of(host.begin(), host.end(), IsAddressCharacter)) return false;
  } else {
    const size_t colon = text.find(':');
    host = text.substr(0, colon);
    port = colon == std::string_view::npos ? "" : text.substr(colon);
    if (!std::all_of(host.begin(), host.end(), IsHostCharacter)) return false;
  }
  if (host.empty()) return false;
  url.host = Lower(host);
  if (port.empty() || port == ":") return true;
  if (!port.starts_with(':')) return false;
  const std::optional<int> number = ParsePort(port.substr(1));
  if (!number) return false;
  url.port = *number;
  return true;
}

}  // namespace

std::string Url::origin() const {
  const bool address = host.find(':') != std::string::npos;
  std::string text = StrCat(scheme, "://", address ? "[" : "", host, address ? "]" : "");
  if (port != (scheme == "https" ? kHttpsPort : kHttpPort)) StrAppend(text, ":", port);
  return text;
}

std::optional<Url> ParseUrl(std::string_view text) {
  const size_t scheme = text.find("://");
  if (scheme == std::string_view::npos) return std::nullopt;
  Url url{.scheme = Lower(text.substr(0, scheme))};
  if (url.scheme != "http" && url.scheme != "https") return std::nullopt;
  text.remove_prefix(scheme + 3);
  text = text.substr(0, text.find('#'));
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  if (!ParseAuthority(text.substr(0, end), url)) return std::nullopt;
  const std::string_view target = text.substr(end);
  if (!std::all_of(target.begin(), target.end(), IsTargetCharacter)) return std::nullopt;
  url.target = StrCat(target.starts_with('/') ? "" : "/", target);
  return url;
}

std::optional<Url> ResolveUrl(const Url& from, std::string_view location) {
  if (location.empty()) return std::nullopt;
  if (location.starts_with("//")) return ParseUrl(StrCat(from.scheme, ":", location));
  if (location.starts_with('/')) return ParseUrl(StrCat(from.origin(), location));
  const size_t scheme = location.find("://");
  if (scheme != std::string_view::npos && scheme < location.find_first_of("/?#")) return ParseUrl(location);
  const std::string_view path = std::string_view(from.target).substr(0, from.target.find('?'));
  if (location.starts_with('?')) return ParseUrl(StrCat(from.origin(), path, location));
  return ParseUrl(StrCat(from.origin(), path.substr(0, path.rfind('/') + 1), location));
}

std::string PercentEncode(std::string_view text, std::string_view keep) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (IsAlphanumeric(c) || std::string_view("-._~").find(c) != std::string_view::npos ||
        keep.find(c) != std::string_view::npos) {
      encoded.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      StrAppend(encoded, '%', kDigits[byte >> 4], kDigits[byte & 15]);
    }
  }
  return encoded;
}

}  // namespace ftune
