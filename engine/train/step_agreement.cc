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
static_assert(sizeof(StepFacts) == (std::size(kNamed) + 1) * sizeof(int64_t), "each but batches has a name");

absl::Status CheckSameBatches(const MeshShape& shape, const std::vector<StepFacts>& facts, int rank) {
  std::vector<int> first(shape.data, -1);  // rank of each data coordinate
  for (int other = 0; other < std::ssize(facts); ++other) {
    int& known = first[shape.Coordinate(other, MeshAxis::kData)];
    if (known < 0) known = other;
    if (facts[other].batches == facts[known].batches) continue;
    return UserError(
        ExitCode::kRankFailed,
        {.key = StrCat("step ", facts[rank].step),
         .message = StrCat("rank ", known, " and rank ", other,
                           " train on parts of one batch, and their data differ"),
         .hint = "compare the files of the dataset, and those of the tokenizer, on their hosts"});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSame(const MeshShape& shape, const std::vector<StepFacts>& facts, int rank) {
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
  return CheckSameBatches(shape, facts, rank);
}

absl::Status AgreeOnFacts(Mesh& mesh, Stream stream, const StepFacts& own) {
  std::vector<StepFacts> facts;
  FTUNE_RETURN_IF_ERROR(mesh.world().Run(GatherRecords(mesh.world(), own, stream, facts)));
  return CheckSame(mesh.shape(), facts, mesh.rank());
}

}  // namespace ftune
