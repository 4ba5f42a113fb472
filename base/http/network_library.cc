#include "base/http/network_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"

namespace ftune {

absl::StatusOr<Network*> LoadNetwork(std::string_view what, std::string_view instead) {
  constexpr char kFile[] = "libftune_network.so";
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path path = program.parent_path() / kFile;
  if (error || !Exists(path)) {
    return DataError({.file = path.string(),
                      .message = StrCat(what, " need this library, and it is not there"),
                      .hint = StrCat("keep it beside ftune, or ", instead)});
  }
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = library == nullptr ? nullptr : dlsym(library, kNetworkSymbol);
  if (symbol == nullptr) {
    const char* why = dlerror();
    return DataError(
        {.file = path.string(),
         .message = StrCat("cannot be loaded, and ", what, " need it: ", why ? why : "no symbol"),
         .hint = "install what it names (see third_party/README.md)"});
  }
  return &reinterpret_cast<NetworkFunction>(symbol)();
}

}  // namespace ftune
