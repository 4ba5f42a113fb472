// Ranks that a launcher starts on several hosts read each its own files: these must hold the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cmd/run_data.h"
#include "cmd/run_options.h"
#include "engine/pipeline/schedule_source.h"
#include "parallel/comm/communicator.h"

namespace ftune {

inline constexpr char kTrainKey[] = "data.train";
inline constexpr char kEvaluationKey[] = "data.eval";

// Something that is the same on all ranks, wherever each has it.
struct SharedInput {
  std::string key;    // the recipe's, that names it: "model.path"
  std::string place;  // the file here; or what it is, where it is none
  std::string size;   // "1234 bytes"
  uint64_t hash = 0;  // of what it holds
};

// Whether they hold the same, wherever they are.
bool Same(const SharedInput& a, const SharedInput& b);

// Whether it is what was made from the files of a key, which stand before it.
bool IsSamples(const SharedInput& input);

// The model, and the adapter or checkpoint it goes on from.
absl::StatusOr<std::vector<SharedInput>> ModelInputs(const Recipe& recipe, const ModelPlan& plan);
// The files of a schedule and of a chat template, the samples, and what they were made from.
std::vector<SharedInput> DataInputs(const Recipe& recipe, const RunData& data,
                                    const ScheduleSource& schedule);

// Called by all ranks; one small reduction where all is well. An error on all of them where some rank's
// differ from rank 0's, that names the rank, its host and the first file.
absl::Status CheckSameInputs(Communicator& world, const std::vector<SharedInput>& own);

}  // namespace ftune
