// A client for many servers: follows redirects, keeps a token to the server it is for, and says what failed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/http/network.h"
#include "base/http/proxy.h"
#include "base/http/url.h"

namespace ftune {

struct HttpClientOptions {
  std::string user_agent;
  std::string token;         // sent as a bearer's, to `token_origin` alone
  std::string token_origin;  // as Url::origin
  int timeout_seconds = 10;
  EnvironmentReader environment;  // proxies and certificates
};

// What an exchange came to: a head, or a failure.
struct HttpAnswer {
  HttpFailure failure = HttpFailure::kNone;
  HttpHead head;
  Url url;              // after redirects
  std::string body;     // what no sink took
  std::string problem;  // a failure in words: "HOST cannot be reached"
  std::string advice;   // what to do about it

  bool ok() const { return failure == HttpFailure::kNone; }
};

// For one thread.
class HttpClient {
 public:
  HttpClient(Network& network, HttpClientOptions options);

  // Takes the head of the last answer in a chain of redirects; true: the body goes to `body`.
  struct Sink {
    std::function<bool(const HttpHead& head)> head;
    std::function<bool(std::string_view bytes)> body;  // false: stop
  };
  // Redirects are followed, to another server without the token, and never from https to http. A body that no
  // sink takes is kept, up to a size no hub's answer has. The status is an error of the environment alone.
  absl::StatusOr<HttpAnswer> Get(const Url& url, const std::map<std::string, std::string>& headers,
                                 const Sink* sink = nullptr);

 private:
  absl::StatusOr<HttpConnection*> ConnectionTo(const Url& url);

  Network& network_;
  HttpClientOptions options_;
  std::map<std::string, std::unique_ptr<HttpConnection>> connections_;  // by origin
};

}  // namespace ftune
