#include "base/http/http_server_library.h"

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/sibling_library.h"
#include "base/strings.h"

namespace ftune {

namespace {

absl::StatusOr<void*> Symbol() {
  return SiblingSymbol("libftune_server.so", kHttpServerSymbol, "pages for Prometheus",
                       "keep it beside ftune, or leave log.metrics_port out");
}

}  // namespace

absl::Status LoadHttpServer() { return Symbol().status(); }

absl::StatusOr<std::unique_ptr<HttpServer>> StartHttpServer(const HttpServerOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(void* const symbol, Symbol());
  int error = 0;
  std::unique_ptr<HttpServer> server = reinterpret_cast<HttpServerFunction>(symbol)(options, &error);
  if (server != nullptr) return server;
  const std::string where = StrCat("port ", options.port, " of ", options.address);
  if (error == EADDRINUSE) {
    return UsageError({.message = StrCat(where, " is in use by another process"),
                       .hint = "choose another one, or 0: the system then chooses one"});
  }
  return UsageError(
      {.message = StrCat("cannot listen on ", where, ": ",
                         error == 0 ? "no address of this host has that name" : std::strerror(error)),
       .hint = "name an address of this host (0.0.0.0: all of them) and a port that may be used"});
}

}  // namespace ftune
