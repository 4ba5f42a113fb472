// A library of ftune's own that is loaded when it is first needed, since it brings libraries of others that
// every start would pay for.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ftune {

// The address of `symbol` in the library `file` beside the running program. It stays loaded. `user` in
// errors: "downloads"; `advice`: what to do where the file is not there.
absl::StatusOr<void*> SiblingSymbol(const std::string& file, const char* symbol, const std::string& user,
                                    const std::string& advice);

}  // namespace ftune
