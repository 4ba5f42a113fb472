#include "base/sibling_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<void*> SiblingSymbol(const std::string& file, const char* symbol, const std::string& user,
                                    const std::string& advice) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path path = program.parent_path() / file;
  if (error || !Exists(path)) {
    return DataError({.file = path.string(),
                      .message = StrCat(user, " need this library, and it is not there"),
                      .hint = advice});
  }
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const address = library == nullptr ? nullptr : dlsym(library, symbol);
  if (address != nullptr) return address;
  const char* const why = dlerror();
  return DataError(
      {.file = path.string(),
       .message = StrCat("cannot be loaded, and ", user, " need it: ", why == nullptr ? "no symbol" : why),
       .hint = "install what it names (see third_party/README.md)"});
}

}  // namespace ftune
