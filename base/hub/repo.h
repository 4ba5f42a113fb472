// Names on the Hugging Face hub: of repositories, of files in them, of revisions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ftune {

enum class RepoKind { kModel, kDataset };

struct Repo {
  RepoKind kind = RepoKind::kModel;
  std::string id;  // "org/name"

  // "models--org--name": its folder in the cache.
  std::string folder() const;
  // What addresses have: "datasets/" for datasets before the id, and "models" or "datasets" in those of the
  // API.
  std::string address() const;
  std::string api_address() const;
  const char* what() const { return kind == RepoKind::kModel ? "model" : "dataset"; }
};

struct HubPath {
  Repo repo;
  std::string file;  // in it: "name.gguf", "folder/name.gguf"; empty: the repository as a whole
};

// "org/name", or for a model "org/name/file.gguf". Nothing where `text` cannot be one, or rather is the name
// of a file here: it ends as those of data and weights do ("data/chats.jsonl").
std::optional<HubPath> ParseHubPath(std::string_view text, RepoKind kind);

// A branch, a tag, "refs/pr/1" or a commit: what git allows and is safe in a path.
bool IsRevision(std::string_view text);
// 40 lower-case hexadecimal digits, which never come to mean something else.
bool IsCommit(std::string_view text);

// A relative path of a file that stays in its folder: no "..", no empty part, no control character.
bool IsSafePath(std::string_view path);

bool IsHex(std::string_view text, size_t digits);

}  // namespace ftune
