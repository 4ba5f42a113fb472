#include "base/http/http_client.h"

#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr int kMaxRedirects = 10;
constexpr size_t kLargestBody = size_t{64} << 20;

bool IsRedirect(int status) { return status >= 301 && status <= 308 && status != 304 && status != 306; }

void Describe(HttpAnswer& answer) {
  const std::string& host = answer.url.host;
  switch (answer.failure) {
    case HttpFailure::kNone:
    case HttpFailure::kCancelled:
      return;
    case HttpFailure::kConnect:
      answer.problem = StrCat(host, " cannot be reached");
      answer.advice = "check the network, HTTPS_PROXY and HF_ENDPOINT";
      return;
    case HttpFailure::kBroken:
      answer.problem = StrCat("the connection to ", host, " broke, or nothing came for too long");
      answer.advice = "try again: what has been downloaded is kept";
      return;
    case HttpFailure::kTls:
      answer.problem = StrCat("no encrypted connection with ", host, " could be made");
      answer.advice = "check that it speaks https on this port";
      return;
    case HttpFailure::kCertificate:
      answer.problem = StrCat("the certificate of ", host, " is not trusted");
      answer.advice =
          "name the file with your authority's certificate in SSL_CERT_FILE, or install ca-certificates";
      return;
    case HttpFailure::kTrustStore:
      answer.problem = "the certificates of the authorities cannot be read";
      answer.advice = "check SSL_CERT_FILE and REQUESTS_CA_BUNDLE, or install ca-certificates";
      return;
  }
}

HttpAnswer Refused(HttpAnswer answer, std::string problem) {
  answer.failure = HttpFailure::kTls;
  answer.problem = std::move(problem);
  answer.advice = "check HF_ENDPOINT";
  return answer;
}

}  // namespace

HttpClient::HttpClient(Network& network, HttpClientOptions options)
    : network_(network), options_(std::move(options)) {}

absl::StatusOr<HttpConnection*> HttpClient::ConnectionTo(const Url& url) {
  std::unique_ptr<HttpConnection>& connection = connections_[url.origin()];
  if (connection) return connection.get();
  ServerOptions server{.origin = url.origin(),
                       .certificates = CertificatePath(options_.environment),
                       .timeout_seconds = options_.timeout_seconds};
  FTUNE_ASSIGN_OR_RETURN(const std::optional<Proxy> proxy, ProxyFor(url, options_.environment));
  if (proxy) {
    server.proxy = Url{.scheme = "http", .host = proxy->host, .port = proxy->port}.origin();
    server.proxy_user = proxy->user;
    server.proxy_password = proxy->password;
  }
  connection = network_.Connect(server);
  return connection.get();
}

absl::StatusOr<HttpAnswer> HttpClient::Get(const Url& url, const std::map<std::string, std::string>& headers,
                                           const Sink* sink) {
  HttpAnswer answer;
  answer.url = url;
  bool trusted = !options_.token.empty() && url.origin() == options_.token_origin;
  for (int redirects = 0;; ++redirects) {
    std::map<std::string, std::string> sent = headers;
    sent["User-Agent"] = options_.user_agent;
    sent["Accept-Encoding"] = "identity";
    if (trusted) sent["Authorization"] = StrCat("Bearer ", options_.token);
    FTUNE_ASSIGN_OR_RETURN(HttpConnection * connection, ConnectionTo(answer.url));

    answer.body.clear();
    bool to_sink = false;
    answer.failure = connection->Get(
        answer.url.target, sent,
        [&](const HttpHead& head) {
          answer.head = head;
          to_sink = sink != nullptr && !IsRedirect(head.status) && sink->head(head);
          return true;
        },
        [&](std::string_view bytes) {
          if (to_sink) return sink->body(bytes);
          if (answer.body.size() + bytes.size() > kLargestBody) return false;
          answer.body.append(bytes);
          return true;
        });
    if (!answer.ok()) {
      Describe(answer);
      return answer;
    }
    if (!IsRedirect(answer.head.status)) return answer;
    const std::optional<Url> next = ResolveUrl(answer.url, answer.head.Header("location"));
    if (!next) return Refused(std::move(answer), StrCat(url.host, " redirects to no address"));
    if (answer.url.scheme == "https" && next->scheme != "https") {
      return Refused(std::move(answer), StrCat(url.host, " redirects from https to http"));
    }
    if (redirects == kMaxRedirects)
      return Refused(std::move(answer), StrCat(url.host, " redirects in circles"));
    trusted = trusted && SameOrigin(answer.url, *next);
    answer.url = *next;
  }
}

}  // namespace ftune
