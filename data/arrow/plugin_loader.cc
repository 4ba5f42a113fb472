#include "data/arrow/plugin_loader.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kPluginName[] = "ftune-arrow.so";
constexpr char kHowToInstall[] =
    "install the Python package pyarrow (third_party/install.sh does) and build again, or set FTUNE_PLUGINS "
    "to "
    "the folder that has the plugin";

std::vector<std::filesystem::path> PluginFolders() {
  std::vector<std::filesystem::path> folders;
  const char* variable = std::getenv("FTUNE_PLUGINS");
  std::string_view rest = variable == nullptr ? "" : variable;
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    if (end != 0) folders.emplace_back(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  std::error_code error;
  const std::filesystem::path binary = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(binary.parent_path());
  return folders;
}

absl::StatusOr<const FtuneArrowPlugin*> LoadPlugin(const std::filesystem::path& path) {
  // Local: Arrow's symbols are for the plugin alone. Never unloaded: Arrow's threads would outlive their
  // code.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    return DataError({.message = StrCat("the plugin cannot be loaded: ", dlerror()), .hint = kHowToInstall});
  }
  const auto entry = reinterpret_cast<FtuneArrowEntry>(dlsym(library, kFtuneArrowEntryName));
  if (entry == nullptr) {
    return DataError({.file = path.string(), .message = "not a plugin of ftune", .hint = kHowToInstall});
  }
  const FtuneArrowPlugin* plugin = entry();
  if (plugin->abi != kFtuneArrowAbi) {
    return DataError({.file = path.string(),
                      .message = "the plugin belongs to another version of ftune",
                      .found = StrCat("interface ", plugin->abi),
                      .expected = StrCat("interface ", static_cast<int>(kFtuneArrowAbi)),
                      .hint = "build both anew"});
  }
  return plugin;
}

}  // namespace

absl::StatusOr<const FtuneArrowPlugin*> LoadArrowPlugin() {
  const std::vector<std::filesystem::path> folders = PluginFolders();
  std::vector<std::string> names;
  for (const std::filesystem::path& folder : folders) {
    const std::filesystem::path path = folder / kPluginName;
    std::error_code error;
    if (std::filesystem::exists(path, error)) return LoadPlugin(path);
    names.push_back(folder.string());
  }
  return DataError({.message = StrCat("Parquet and Arrow files are read by ", kPluginName,
                                      ", which is not in ", StrJoin(names, " or ")),
                    .hint = kHowToInstall});
}

}  // namespace ftune
