// The "post_processor" of tokenizer.json: the tokens it puts around a text.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "data/tokenizer/json_part.h"

namespace ftune {

// Adds to `prefix` and `suffix`. A type that is not known is an error that names it.
absl::Status ReadPostProcessor(const JsonPart& part, std::vector<int32_t>& prefix,
                               std::vector<int32_t>& suffix);

}  // namespace ftune
