// The picture of a learning-rate range test.
#pragma once

#include <string>

#include "cmd/lr_range_test.h"

namespace ftune {

// An SVG document: losses over the learning rate, which is on a logarithmic axis, and the suggestion.
std::string LrPlotSvg(const LrRangeResult& result);

}  // namespace ftune
