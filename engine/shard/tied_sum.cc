#include "engine/shard/tied_sum.h"

#include <algorithm>

#include "base/error.h"
#include "engine/shard/arena.h"

namespace ftune {
namespace {

const Parameter& TiedWeight(const Model& model) {
  return model.blocks().front()->store().parameters().front();
}

}  // namespace

absl::StatusOr<TiedSum> TiedSum::Create(Mesh& mesh, const Model& model) {
  Communicator& pipeline = mesh.axis(MeshAxis::kPipeline);
  TiedSum sum;
  if (pipeline.size() == 1) return sum;
  const bool home = model.tied_across() && TiedWeight(model).trainable;
  const bool heads = home && model.blocks().front()->copy();
  // Who the two are; -1: there are none.
  FTUNE_ASSIGN_OR_RETURN(const int64_t embedding,
                         pipeline.AllReduce(int64_t{home && !heads ? pipeline.rank() : -1}, ReduceOp::kMax));
  FTUNE_ASSIGN_OR_RETURN(const int64_t head,
                         pipeline.AllReduce(int64_t{heads ? pipeline.rank() : -1}, ReduceOp::kMax));
  if (!home) return sum;
  const auto [first, second] = std::minmax({static_cast<int>(embedding), static_cast<int>(head)});
  FTUNE_ASSIGN_OR_RETURN(sum.pair_, pipeline.Split({first, second}));
  return sum;
}

void TiedSum::Reduce(Stream stream, Model& model) {
  pair_->Run(Call::AllReduce(BufferOf(stream, TiedWeight(model).gradient))).IgnoreError();
}

}  // namespace ftune
