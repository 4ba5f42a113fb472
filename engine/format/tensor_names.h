// Names of tensors in Hugging Face files, whose dialects differ, as the names that the model uses.
#pragma once

#include <string>
#include <string_view>

#include "engine/format/families.h"

namespace ftune {

// The model's name for a file's tensor; empty where the model does not use it: buffers that transformers
// computes itself (rotary frequencies, GPT-2's masks), and, with `text_only`, the parts of a multimodal model
// that are not text.
std::string ModelTensorName(std::string_view name, const Family& family, bool text_only);

}  // namespace ftune
