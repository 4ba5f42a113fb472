// Exchanges with one server by libcurl: see base/http/network.h.
#pragma once

#include <curl/curl.h>

#include <map>
#include <memory>
#include <string>

#include "base/http/network.h"

namespace ftune {

class CurlConnection final : public HttpConnection {
 public:
  explicit CurlConnection(const ServerOptions& options);

  HttpFailure Get(const std::string& target, const std::map<std::string, std::string>& headers,
                  const std::function<bool(const HttpHead&)>& on_head,
                  const std::function<bool(std::string_view)>& on_body) override;

 private:
  HttpFailure ToFailure(CURLcode code) const;

  std::string origin_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl_;
};

}  // namespace ftune
