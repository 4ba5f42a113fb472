#include "base/hub/repo.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/strings.h"

namespace ftune {
namespace {

constexpr size_t kLongestName = 96;
constexpr size_t kLongestRevision = 200;

// Ends of names that files have and repositories, in practice, have not.
constexpr std::array<std::string_view, 24> kFileTypes = {
    ".gguf", ".safetensors", ".bin",     ".pt",    ".pth", ".json",    ".jsonl", ".ndjson",
    ".csv",  ".tsv",         ".txt",     ".md",    ".gz",  ".zst",     ".jinja", ".zip",
    ".yaml", ".yml",         ".parquet", ".arrow", ".py",  ".feather", ".xlsx",  ".tiktoken"};

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.';
}

// A part of an id, as the hub checks them.
bool IsName(std::string_view name) {
  if (name.empty() || name.size() > kLongestName) return false;
  if (!std::all_of(name.begin(), name.end(), IsNameCharacter)) return false;
  const auto outer = [](char c) { return c == '-' || c == '.'; };
  if (outer(name.front()) || outer(name.back())) return false;
  return name.find("--") == std::string_view::npos && name.find("..") == std::string_view::npos &&
         !name.ends_with(".git");
}

bool EndsAsFile(std::string_view text) {
  const std::string lower = Lower(text);
  return std::any_of(kFileTypes.begin(), kFileTypes.end(),
                     [&](std::string_view type) { return lower.ends_with(type); });
}

}  // namespace

std::string Repo::folder() const {
  std::string folder = kind == RepoKind::kModel ? "models--" : "datasets--";
  for (const char c : id) folder.append(c == '/' ? "--" : std::string(1, c));
  return folder;
}

std::string Repo::address() const { return kind == RepoKind::kModel ? id : "datasets/" + id; }
std::string Repo::api_address() const {
  return StrCat(kind == RepoKind::kModel ? "models/" : "datasets/", id);
}

std::optional<HubPath> ParseHubPath(std::string_view text, RepoKind kind) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const size_t second = text.find('/', slash + 1);
  const std::string_view id = text.substr(0, second);
  if (!IsName(id.substr(0, slash)) || !IsName(id.substr(slash + 1))) return std::nullopt;
  HubPath path{.repo = {kind, std::string(id)}};
  if (second == std::string_view::npos) return EndsAsFile(id) ? std::nullopt : std::optional(path);
  path.file = text.substr(second + 1);
  if (kind != RepoKind::kModel || !Lower(path.file).ends_with(".gguf") || !IsSafePath(path.file))
    return std::nullopt;
  return path;
}

bool IsHex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool IsCommit(std::string_view text) { return IsHex(text, 40); }

bool IsSafePath(std::string_view path) {
  if (path.empty()) return false;
  while (true) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (std::any_of(part.begin(), part.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }))
      return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

bool IsRevision(std::string_view text) {
  constexpr std::string_view kForbidden = " ~^:?*[\\";
  return text.size() <= kLongestRevision && IsSafePath(text) &&
         text.find_first_of(kForbidden) == std::string_view::npos &&
         text.find("..") == std::string_view::npos && !text.starts_with('-');
}

}  // namespace ftune
