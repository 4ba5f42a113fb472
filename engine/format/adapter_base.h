// What an adapter's folder says about the base that the adapter was trained on, in a file of ftune's own
// beside PEFT's: its form, as PEFT's files have no place for it.
#pragma once

#include <filesystem>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"

namespace ftune {

inline constexpr char kAdapterBaseFile[] = "ftune_adapter.json";

// FOLDER/ftune_adapter.json: {"quantize": "nf4"}. Without quantisation there is no such file, and one that is
// there goes.
absl::Status WriteAdapterBase(const std::filesystem::path& folder, const std::optional<DType>& quantize);
// How the base's linears were quantised; nothing if they were not.
absl::StatusOr<std::optional<DType>> ReadAdapterBase(const std::filesystem::path& folder);

}  // namespace ftune
