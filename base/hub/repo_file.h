// The files of a repository at a commit, as the hub's API and the cache describe them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace ftune {

struct RepoFile {
  std::string path;
  int64_t size = 0;
  std::string git_id;    // SHA-1 of the git blob, 40 digits
  std::string sha256;    // of what is stored outside git (LFS), 64 digits; else empty
  std::string xet_hash;  // kept for Hugging Face's tools; may be empty

  // The name of its content in the cache.
  const std::string& etag() const { return sha256.empty() ? git_id : sha256; }
};

// Adds the files of one page of /api/…/tree/…; folders are left out. `source` names the page in errors. What
// could lead out of the cache or is no digest is an error.
absl::Status AddTreePage(std::string_view json, const std::string& source, std::vector<RepoFile>& files);

// The cache's own listing, in huggingface_hub's form: trees/COMMIT.json. Nothing of it is trusted either.
std::string TreeToJson(const std::vector<RepoFile>& files);
absl::StatusOr<std::vector<RepoFile>> TreeFromJson(std::string_view json, const std::string& source);

}  // namespace ftune
