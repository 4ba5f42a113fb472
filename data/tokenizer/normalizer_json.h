// The "normalizer" of tokenizer.json.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "data/tokenizer/json_part.h"
#include "data/tokenizer/normalizer.h"

namespace ftune {

// Appends the steps of `part` (null: none). A type that is not known is an error that names it.
absl::Status ReadNormalizer(const JsonPart& part, std::vector<std::unique_ptr<Normalizer>>& steps);

}  // namespace ftune
