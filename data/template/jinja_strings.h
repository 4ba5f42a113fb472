// Python's str methods on texts, provenance kept. Used by methods and by the filters of the same names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "data/template/jinja_text.h"

namespace ftune::jinja {

enum class Side { kLeft, kRight, kBoth };

// Without `characters`: whitespace.
Text Strip(const Text& text, Side side, const std::optional<std::string>& characters);
// Without `separator`: at runs of whitespace, empty pieces dropped. limit < 0: none. from_right: rsplit.
std::vector<Text> Split(const Text& text, const std::optional<std::string>& separator, int64_t limit,
                        bool from_right);
std::vector<Text> SplitLines(const Text& text, bool keep_ends);
// count < 0: all.
Text Replace(const Text& text, std::string_view from, const Text& to, int64_t count);
Text Join(const Text& separator, const std::vector<Text>& parts);
// A case mapping of the whole text; provenance is exact for ASCII and the text's merged one otherwise.
Text MapBytes(const Text& text, std::string (*mapping)(std::string_view));

}  // namespace ftune::jinja
