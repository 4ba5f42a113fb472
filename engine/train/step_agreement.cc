#include "engine/train/step_agreement.h"

#include <algorithm>
#include <iterator>
#include <limits>
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
constexpr size_t kStop = 2 * std::size(kNamed);
constexpr size_t kBatches = kStop + 1;

// The first 43 bits of a hash, and a rank: where hashes differ, the extremes say who has them.
constexpr int kRankBits = 20;
constexpr int64_t kRankMask = (int64_t{1} << kRankBits) - 1;
int64_t Signed(uint64_t hash, int rank) {
  return static_cast<int64_t>(hash >> (kRankBits + 1) << kRankBits) | (rank & kRankMask);
}

}  // namespace

StepAgreement::StepAgreement(Mesh& mesh, Stream stream)
    : mesh_(mesh),
      stream_(stream),
      extremes_(kBatches + (compares_batches() ? 2 * static_cast<size_t>(mesh.shape().data) : 0)) {}

Call StepAgreement::Prepare(const StepFacts& facts, bool stop) {
  own_ = facts;
  std::fill(extremes_.begin(), extremes_.end(), -std::numeric_limits<int64_t>::max());
  for (size_t i = 0; i < std::size(kNamed); ++i) {
    extremes_[2 * i] = facts.*kNamed[i].value;
    extremes_[2 * i + 1] = -(facts.*kNamed[i].value);
  }
  extremes_[kStop] = stop ? 1 : 0;
  if (compares_batches()) {
    const size_t own = kBatches + 2 * static_cast<size_t>(mesh_.Coordinate(MeshAxis::kData));
    extremes_[own] = Signed(facts.batch_hash, mesh_.rank());
    extremes_[own + 1] = -extremes_[own];
  }
  return Call::AllReduce(
      {reinterpret_cast<std::byte*>(extremes_.data()), std::ssize(extremes_), DType::kI64, stream_},
      ReduceOp::kMax);
}

absl::Status StepAgreement::Compare() const {
  for (size_t i = 0; i < std::size(kNamed); ++i) {
    const int64_t greatest = extremes_[2 * i], least = -extremes_[2 * i + 1];
    if (greatest == least) continue;
    return UserError(ExitCode::kRankFailed,
                     {.key = StrCat("step ", own_.step),
                      .message = StrCat("the ranks differ in ", kNamed[i].name),
                      .found = StrCat("from ", least, " to ", greatest, "; ", own_.*kNamed[i].value,
                                      " on rank ", mesh_.rank()),
                      .expected = "the same on all",
                      .hint = "all ranks must be given the same recipe and the same data"});
  }
  return CompareBatches();
}

absl::Status StepAgreement::CompareBatches() const {
  for (size_t i = kBatches; i < extremes_.size(); i += 2) {
    const int64_t greatest = extremes_[i], least = -extremes_[i + 1];
    if (greatest >> kRankBits == least >> kRankBits) continue;
    const int64_t one = greatest & kRankMask, other = least & kRankMask;
    return UserError(
        ExitCode::kRankFailed,
        {.key = StrCat("step ", own_.step),
         .message = StrCat("rank ", std::min(one, other), " and rank ", std::max(one, other),
                           " train on parts of one batch, and their data differ"),
         .hint = "compare the files of the dataset, and those of the tokenizer, on their hosts"});
  }
  return absl::OkStatus();
}

absl::Status StepAgreement::Agree(const StepFacts& facts) {
  FTUNE_RETURN_IF_ERROR(mesh_.world().Run(Prepare(facts, false)));
  return Compare();
}

void StepAgreement::Start(const StepFacts& facts, bool stop) {
  pending_.Wait().IgnoreError();
  pending_ = mesh_.world().Start(Prepare(facts, stop));
}

absl::StatusOr<bool> StepAgreement::Finish() {
  FTUNE_RETURN_IF_ERROR(std::exchange(pending_, {}).Wait());
  FTUNE_RETURN_IF_ERROR(Compare());
  return extremes_[kStop] != 0;
}

}  // namespace ftune
