// Folders: what is in them, and making them. Nothing here throws.
#pragma once

#include <filesystem>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ftune {

// False only if there is surely nothing: what cannot be looked at (no permission) counts as there, so that
// opening it names the cause.
bool Exists(const std::filesystem::path& path);
// The folder, or the one above it that is there.
std::filesystem::path NearestFolder(const std::filesystem::path& folder);

// What lies in the folder, sorted.
absl::StatusOr<std::vector<std::filesystem::path>> ListFolder(const std::filesystem::path& folder);

// Makes the folder, and those above it, if need be.
absl::Status MakeFolder(const std::filesystem::path& folder);

// A rename is durable only once the folder that holds the name is.
absl::Status SyncFolder(const std::filesystem::path& folder);

// Removes the folder and what is in it, if it is there.
absl::Status RemoveFolder(const std::filesystem::path& folder);

// `folder` becomes `target`, in place of what is there; whoever looks finds the old one or the new one.
// Durable when it returns. Both are on the same file system.
absl::Status ReplaceFolder(const std::filesystem::path& folder, const std::filesystem::path& target);

}  // namespace ftune
