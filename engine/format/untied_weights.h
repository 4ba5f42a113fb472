// A tied model's weights with a head of their own.
#pragma once

#include <memory>
#include <string>

#include "engine/format/weight_source.h"

namespace ftune {

// The same tensors, and one named `head` with the bytes of that named `embedding`.
std::unique_ptr<WeightSource> UntieHead(std::unique_ptr<WeightSource> weights, const std::string& embedding,
                                        const std::string& head);

}  // namespace ftune
