#include "base/network/curl_connection.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace ftune {
namespace {

// What libcurl's callbacks get: the lines of the head as they come, then the body.
struct Exchange {
  const std::function<bool(const HttpHead&)>& on_head;
  const std::function<bool(std::string_view)>& on_body;
  HttpHead head = {};
};

std::string_view Trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// "HTTP/1.1 200 OK": 200.
int StatusOf(std::string_view line) {
  const size_t blank = line.find(' ');
  return blank == std::string_view::npos ? 0 : std::atoi(std::string(line.substr(blank + 1, 3)).c_str());
}

// One line of a head; the empty line ends it. Returns `count`, or 0 to end the exchange.
size_t OnHeaderLine(char* data, size_t, size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::string_view line = Trimmed(std::string_view(data, count));
  if (line.starts_with("HTTP/")) {
    exchange.head = {.status = StatusOf(line)};
  } else if (line.empty()) {
    const bool interim = exchange.head.status / 100 == 1;
    if (!interim && !exchange.on_head(exchange.head)) return 0;
  } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    exchange.head.headers.emplace(std::move(name), Trimmed(line.substr(colon + 1)));
  }
  return count;
}

size_t OnBody(char* data, size_t, size_t count, void* user) {
  return static_cast<Exchange*>(user)->on_body(std::string_view(data, count)) ? count : 0;
}

bool IsFolder(const std::string& path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

void Trust(CURL* curl, const std::string& certificates) {
  if (certificates.empty()) return;
  const bool folder = IsFolder(certificates);
  curl_easy_setopt(curl, CURLOPT_CAINFO, folder ? nullptr : certificates.c_str());
  curl_easy_setopt(curl, CURLOPT_CAPATH, folder ? certificates.c_str() : nullptr);
}

// The options are the handle's: what the environment says has been read by those who call
// (base/http/proxy.h).
void UseProxy(CURL* curl, const ServerOptions& options) {
  curl_easy_setopt(curl, CURLOPT_PROXY, options.proxy.c_str());  // empty: none
  curl_easy_setopt(curl, CURLOPT_PROXYPORT, 80L);                // where its address has none, as in a URL
  curl_easy_setopt(curl, CURLOPT_NOPROXY, "");
  if (options.proxy_user.empty()) return;
  curl_easy_setopt(curl, CURLOPT_PROXYUSERNAME, options.proxy_user.c_str());
  curl_easy_setopt(curl, CURLOPT_PROXYPASSWORD, options.proxy_password.c_str());
}

}  // namespace

CurlConnection::CurlConnection(const ServerOptions& options)
    : origin_(options.origin), curl_(curl_easy_init(), &curl_easy_cleanup) {
  CURL* curl = curl_.get();
  if (curl == nullptr) return;  // no memory: Get says so
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, long{options.timeout_seconds});
  // Less than a byte a second for so long.
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, long{options.timeout_seconds});
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &OnHeaderLine);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &OnBody);
  Trust(curl, options.certificates);
  UseProxy(curl, options);
}

HttpFailure CurlConnection::Get(const std::string& target, const std::map<std::string, std::string>& headers,
                                const std::function<bool(const HttpHead&)>& on_head,
                                const std::function<bool(std::string_view)>& on_body) {
  CURL* curl = curl_.get();
  if (curl == nullptr) return HttpFailure::kBroken;
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> lines(nullptr, &curl_slist_free_all);
  for (const auto& [name, value] : headers) {
    curl_slist* longer = curl_slist_append(lines.get(), (name + ": " + value).c_str());
    if (longer == nullptr) return HttpFailure::kBroken;
    static_cast<void>(lines.release());
    lines.reset(longer);
  }
  Exchange exchange{.on_head = on_head, .on_body = on_body};
  curl_easy_setopt(curl, CURLOPT_URL, (origin_ + target).c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, lines.get());
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &exchange);
  const CURLcode code = curl_easy_perform(curl);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, nullptr);
  return ToFailure(code);
}

HttpFailure CurlConnection::ToFailure(CURLcode code) const {
  switch (code) {
    case CURLE_OK:
      return HttpFailure::kNone;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PROXY:
      return HttpFailure::kConnect;
    case CURLE_OPERATION_TIMEDOUT: {
      curl_off_t connected = 0;  // microseconds until it was; 0: never
      curl_easy_getinfo(curl_.get(), CURLINFO_CONNECT_TIME_T, &connected);
      return connected > 0 ? HttpFailure::kBroken : HttpFailure::kConnect;
    }
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CIPHER:
      return HttpFailure::kTls;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      return HttpFailure::kCertificate;
    case CURLE_SSL_CACERT_BADFILE:
      return HttpFailure::kTrustStore;
    case CURLE_WRITE_ERROR:
      return HttpFailure::kCancelled;
    default:
      return HttpFailure::kBroken;
  }
}

}  // namespace ftune
