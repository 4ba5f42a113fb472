// Whether what was written is what was to be written.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "cmd/model_session.h"

namespace ftune {

// A tokenizer that splits text in another way than the model learned would make the model useless: one that
// was written in another form than it was read is tried.
absl::Status CheckTokenizer(const Tokenizer& own, const std::filesystem::path& written);

// The largest difference between the logits of what was exported and of what was written at `path`, at all
// positions of some text and of `prompts`. An error where one is not finite, and where what was written as
// `dtype` cannot be apart by rounding alone: another model.
absl::StatusOr<double> MaxLogitDifference(ModelSession& source, ModelSession& written,
                                          const std::vector<std::string>& prompts, DType dtype,
                                          const std::filesystem::path& path);

}  // namespace ftune
