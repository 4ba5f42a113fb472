#include "base/hub/settings.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

constexpr char kPublicHub[] = "https://huggingface.co";

bool IsOn(const std::optional<std::string>& value) {
  if (!value) return false;
  const std::string lower = Lower(*value);
  return lower == "1" || lower == "on" || lower == "yes" || lower == "true";
}

fs::path Home(const EnvironmentReader& environment) { return environment("HOME").value_or("/"); }

// "~/x" as a shell has it.
fs::path Expand(const std::string& path, const EnvironmentReader& environment) {
  if (path == "~") return Home(environment);
  if (path.starts_with("~/")) return Home(environment) / path.substr(2);
  return path;
}

fs::path HubHome(const EnvironmentReader& environment) {
  if (const std::optional<std::string> home = environment("HF_HOME")) return Expand(*home, environment);
  const std::optional<std::string> cache = environment("XDG_CACHE_HOME");
  return (cache ? Expand(*cache, environment) : Home(environment) / ".cache") / "huggingface";
}

fs::path CacheFolder(const EnvironmentReader& environment) {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const std::optional<std::string> folder = environment(name)) return Expand(*folder, environment);
  }
  return HubHome(environment) / "hub";
}

std::string Trimmed(const std::string& text) {
  constexpr char kBlanks[] = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

absl::StatusOr<std::string> ReadToken(const EnvironmentReader& environment) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    const std::string token = Trimmed(environment(name).value_or(""));
    if (token.empty()) continue;
    if (std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 0x7F; })) return token;
    return UsageError({.key = name,
                       .message = "the environment variable has characters that no token has",
                       .hint = "copy the token anew"});
  }
  const std::optional<std::string> named = environment("HF_TOKEN_PATH");
  const fs::path path = named ? Expand(*named, environment) : HubHome(environment) / "token";
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  line = Trimmed(line);
  if (std::all_of(line.begin(), line.end(), [](char c) { return c > ' ' && c < 0x7F; })) return line;
  return DataError({.file = path.string(), .message = "the file holds no token", .hint = "log in anew"});
}

}  // namespace

absl::StatusOr<HubSettings> ReadHubSettings(const EnvironmentReader& environment) {
  HubSettings settings{.cache = CacheFolder(environment), .environment = environment};
  std::string endpoint = environment("HF_ENDPOINT").value_or(kPublicHub);
  while (endpoint.ends_with('/')) endpoint.pop_back();
  const std::optional<Url> url = ParseUrl(endpoint);
  if (!url || url->target.find('?') != std::string::npos) {
    return UsageError({.key = "HF_ENDPOINT",
                       .found = StrCat("'", endpoint, "'"),
                       .expected = "an address such as https://huggingface.co"});
  }
  settings.endpoint = *url;
  if (settings.endpoint.target == "/") settings.endpoint.target.clear();
  FTUNE_ASSIGN_OR_RETURN(settings.token, ReadToken(environment));
  for (const char* name : {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}) {
    if (settings.offline.empty() && IsOn(environment(name))) settings.offline = name;
  }
  if (const std::optional<std::string> seconds = environment("HF_HUB_DOWNLOAD_TIMEOUT")) {
    const char* last = seconds->data() + seconds->size();
    const auto [end, error] = std::from_chars(seconds->data(), last, settings.timeout_seconds);
    if (error != std::errc() || end != last || settings.timeout_seconds < 1 ||
        settings.timeout_seconds > 86400) {
      return UsageError({.key = "HF_HUB_DOWNLOAD_TIMEOUT",
                         .found = StrCat("'", *seconds, "'"),
                         .expected = "seconds, 1 to 86400"});
    }
  }
  return settings;
}

}  // namespace ftune
