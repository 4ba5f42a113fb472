#include "base/hub/repo_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/hub/repo.h"
#include "base/json_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

using nlohmann::json;

constexpr int64_t kTreeVersion = 1;
constexpr size_t kGitDigits = 40, kSha256Digits = 64;

absl::Status CheckFile(const RepoFile& file, const std::string& source) {
  const auto wrong = [&](std::string key, std::string found, std::string expected) {
    return DataError({.file = source,
                      .key = std::move(key),
                      .found = std::move(found),
                      .expected = std::move(expected),
                      .hint = "the listing cannot be used; check HF_ENDPOINT"});
  };
  if (!IsSafePath(file.path)) return wrong("path", Excerpt(file.path), "a path within the repository");
  if (file.size < 0) return wrong(file.path, StrCat("size ", file.size), "0 or more");
  if (!IsHex(file.git_id, kGitDigits)) return wrong(file.path, Excerpt(file.git_id), "40 hexadecimal digits");
  if (!file.sha256.empty() && !IsHex(file.sha256, kSha256Digits))
    return wrong(file.path, Excerpt(file.sha256), "64 hexadecimal digits");
  return absl::OkStatus();
}

}  // namespace

absl::Status AddTreePage(std::string_view text, const std::string& source, std::vector<RepoFile>& files) {
  FTUNE_ASSIGN_OR_RETURN(const json page, ParseJson(text, source));
  if (!page.is_array()) {
    return DataError({.file = source, .found = Excerpt(page), .expected = "a list of files"});
  }
  for (const json& entry : page) {
    FTUNE_ASSIGN_OR_RETURN(const std::string type, RequiredField<std::string>(entry, "type", source));
    if (type != "file") continue;
    RepoFile file;
    FTUNE_ASSIGN_OR_RETURN(file.path, RequiredField<std::string>(entry, "path", source));
    FTUNE_ASSIGN_OR_RETURN(file.size, RequiredField<int64_t>(entry, "size", source));
    FTUNE_ASSIGN_OR_RETURN(file.git_id, RequiredField<std::string>(entry, "oid", source));
    FTUNE_ASSIGN_OR_RETURN(file.xet_hash, FieldOr<std::string>(entry, "xetHash", "", source));
    if (const auto lfs = entry.find("lfs"); lfs != entry.end() && !lfs->is_null()) {
      FTUNE_ASSIGN_OR_RETURN(file.sha256, RequiredField<std::string>(*lfs, "oid", source));
      FTUNE_ASSIGN_OR_RETURN(file.size, RequiredField<int64_t>(*lfs, "size", source));
    }
    if (!IsHex(file.xet_hash, kSha256Digits)) file.xet_hash.clear();
    FTUNE_RETURN_IF_ERROR(CheckFile(file, source));
    files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

std::string TreeToJson(const std::vector<RepoFile>& files) {
  json entries = json::object();  // sorted by path
  for (const RepoFile& file : files) {
    json& entry = entries[file.path] = {{"size", file.size}, {"blob_id", file.git_id}};
    if (!file.sha256.empty()) {
      entry["lfs_sha256"] = file.sha256;
      entry["lfs_size"] = file.size;
    }
    if (!file.xet_hash.empty()) entry["xet_hash"] = file.xet_hash;
  }
  return json({{"format_version", kTreeVersion}, {"files", entries}})
      .dump(1, ' ', false, json::error_handler_t::replace);
}

absl::StatusOr<std::vector<RepoFile>> TreeFromJson(std::string_view text, const std::string& source) {
  FTUNE_ASSIGN_OR_RETURN(const json root, ParseJson(text, source));
  FTUNE_ASSIGN_OR_RETURN(const int64_t version, RequiredField<int64_t>(root, "format_version", source));
  const auto entries = root.find("files");
  if (version != kTreeVersion || entries == root.end() || !entries->is_object()) {
    return DataError({.file = source, .message = "a listing of another version"});
  }
  std::vector<RepoFile> files;
  for (const auto& [path, entry] : entries->items()) {
    RepoFile file{.path = path};
    FTUNE_ASSIGN_OR_RETURN(file.size, RequiredField<int64_t>(entry, "size", source));
    FTUNE_ASSIGN_OR_RETURN(file.git_id, RequiredField<std::string>(entry, "blob_id", source));
    FTUNE_ASSIGN_OR_RETURN(file.sha256, FieldOr<std::string>(entry, "lfs_sha256", "", source));
    FTUNE_ASSIGN_OR_RETURN(file.size, FieldOr<int64_t>(entry, "lfs_size", file.size, source));
    FTUNE_ASSIGN_OR_RETURN(file.xet_hash, FieldOr<std::string>(entry, "xet_hash", "", source));
    FTUNE_RETURN_IF_ERROR(CheckFile(file, source));
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace ftune
