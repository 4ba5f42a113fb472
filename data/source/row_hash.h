// A number for what a row says, not for how its file spells it.
#pragma once

#include <cstdint>

#include "data/template/chat_template.h"

namespace ftune {

// XXH3-64 of a parsed row's values with their types. White space, escapes and the order of an object's keys
// do not matter; any value, and its type (1, 1.0 and "1"; null and a key that is missing), does. Part of the
// store's format: another function wants another kShardVersion. Recursive: ParseRow bounds the depth.
uint64_t HashRow(const OrderedJson& row);

}  // namespace ftune
