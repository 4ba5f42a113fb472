#include "engine/train/step_agreement.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/gather_records.h"

namespace ftune {
namespace {

struct NamedFact {
  const char* name;
  int64_t StepFacts::*value;
};
constexpr NamedFact kNamed[] = {{"the step", &StepFacts::step},
                                {"the trained tokens of the global batch", &StepFacts::trained_tokens},
                                {"the number of microbatches", &StepFacts::microbatches},
                                {"the pipeline's schedule (a hash of it)", &StepFacts::schedule}};
static_assert(sizeof(StepFacts) == std::size(kNamed) * sizeof(int64_t), "each fact has a name");

}  // namespace

absl::Status CheckSame(const std::vector<StepFacts>& facts, int rank) {
  for (const NamedFact& fact : kNamed) {
    const auto by_value = [&](const StepFacts& a, const StepFacts& b) {
      return a.*fact.value < b.*fact.value;
    };
    const auto [least, greatest] = std::minmax_element(facts.begin(), facts.end(), by_value);
    if ((*least).*fact.value == (*greatest).*fact.value) continue;
    return UserError(ExitCode::kRankFailed,
                     {.key = StrCat("step ", facts[rank].step),
                      .message = StrCat("the ranks differ in ", fact.name),
                      .found = StrCat("from ", (*least).*fact.value, " to ", (*greatest).*fact.value, "; ",
                                      facts[rank].*fact.value, " on rank ", rank),
                      .expected = "the same on all",
                      .hint = "all ranks must be given the same recipe and the same data"});
  }
  return absl::OkStatus();
}

absl::Status AgreeOnFacts(Communicator& world, Stream stream, const StepFacts& own) {
  std::vector<StepFacts> facts;
  FTUNE_RETURN_IF_ERROR(world.Run(GatherRecords(world, own, stream, facts)));
  return CheckSame(facts, world.rank());
}

}  // namespace ftune
