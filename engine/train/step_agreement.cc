#include "engine/train/step_agreement.h"

#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

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

}  // namespace

Call StepAgreement::Prepare(const StepFacts& facts, bool stop) {
  static_assert(std::size(kNamed) == kFacts);
  own_ = facts;
  for (size_t i = 0; i < kFacts; ++i) {
    extremes_[2 * i] = facts.*kNamed[i].value;
    extremes_[2 * i + 1] = -(facts.*kNamed[i].value);
  }
  extremes_.back() = stop ? 1 : 0;
  return Call::AllReduce(
      {reinterpret_cast<std::byte*>(extremes_.data()), std::ssize(extremes_), DType::kI64, stream_},
      ReduceOp::kMax);
}

absl::Status StepAgreement::Compare() const {
  for (size_t i = 0; i < kFacts; ++i) {
    const int64_t greatest = extremes_[2 * i], least = -extremes_[2 * i + 1];
    if (greatest == least) continue;
    return UserError(ExitCode::kRankFailed,
                     {.key = StrCat("step ", own_.step),
                      .message = StrCat("the ranks differ in ", kNamed[i].name),
                      .found = StrCat("from ", least, " to ", greatest, "; ", own_.*kNamed[i].value,
                                      " on rank ", world_.rank()),
                      .expected = "the same on all",
                      .hint = "all ranks must be given the same recipe and the same data"});
  }
  return absl::OkStatus();
}

absl::Status StepAgreement::Agree(const StepFacts& facts) {
  FTUNE_RETURN_IF_ERROR(world_.Run(Prepare(facts, false)));
  return Compare();
}

void StepAgreement::Start(const StepFacts& facts, bool stop) {
  pending_.Wait().IgnoreError();
  pending_ = world_.Start(Prepare(facts, stop));
}

absl::StatusOr<bool> StepAgreement::Finish() {
  FTUNE_RETURN_IF_ERROR(std::exchange(pending_, {}).Wait());
  FTUNE_RETURN_IF_ERROR(Compare());
  return extremes_.back() != 0;
}

}  // namespace ftune
