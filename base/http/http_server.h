// A server of a few pages over HTTP, for those who watch. It lives in a library of its own
// (http_server_library.h). Nothing here throws.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace ftune {

struct HttpPage {
  std::string type;                   // "text/plain; charset=utf-8"
  std::function<std::string()> body;  // called by the server's threads, also by two at once
};

struct HttpServerOptions {
  std::string address;                    // a name or a number of this host
  int port = 0;                           // 0: any free one
  std::map<std::string, HttpPage> pages;  // by path: "/metrics"; all else is not found
};

// Answers in threads of its own for as long as it lives.
class HttpServer {
 public:
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
};

// What the library exports, by the name kHttpServerSymbol: null where it cannot listen, with errno's value in
// `error`; 0 there: the address is not known.
using HttpServerFunction = std::unique_ptr<HttpServer> (*)(const HttpServerOptions& options, int* error);
inline constexpr char kHttpServerSymbol[] = "FtuneHttpServer";

}  // namespace ftune
