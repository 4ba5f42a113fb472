// The library that serves HTTP, loaded when it is first needed.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/http/http_server.h"

namespace ftune {

// From the file libftune_server.so beside the running program. The error, which names no recipe key, says
// that the port is taken, or why else nobody can listen there.
absl::StatusOr<std::unique_ptr<HttpServer>> StartHttpServer(const HttpServerOptions& options);

// Whether that library is there and can be loaded; the error says why not.
absl::Status LoadHttpServer();

}  // namespace ftune
