// Where prepared data is kept, and what is shown of its preparation.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cmd/report/progress.h"
#include "data/prepare/prepare_dataset.h"

namespace ftune {

// `choice` is data.prepared_path; without one $XDG_CACHE_HOME/ftune/tokens or ~/.cache/ftune/tokens; empty
// where the environment names neither.
std::filesystem::path PreparedFolder(const std::optional<std::string>& choice);

// Says and shows on `progress`, which outlives it. Rates count from now on.
PrepareObserver ShowPreparation(Progress& progress);

// "prepared data: PATH, 12 MiB, 3 of 5 shards re-used".
std::string DescribeStore(const PreparedStore& store);

// Rows and megabytes of text, their rates, and how long what is left takes where its size is known.
std::string DescribeProgress(const PrepareProgress& progress, double seconds);

}  // namespace ftune
