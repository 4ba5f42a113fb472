// A forward through all stages, without gradients: for evaluation and generation. Each rank does its part
// when its input comes and goes on to the next batch, so that several are under way.
#pragma once

#include "engine/pipeline/outbox.h"
#include "engine/pipeline/pipeline.h"
#include "engine/pipeline/stage_work.h"

namespace ftune {

// A tensor for the rows of a batch that this rank has.
Tensor NewRows(Backend& backend, const Model& model, int64_t tokens);

class ForwardPass {
 public:
  // `work`, `model` and `pipeline` outlive it.
  ForwardPass(Backend& backend, Stream stream, const Model& model, Pipeline& pipeline, StageWork& work)
      : backend_(backend), stream_(stream), model_(model), pipeline_(pipeline), work_(work) {}

  // The rows that the head is given, on the ranks that have it; undefined on the others.
  Tensor HiddenStates(const Context& context) { return Run(context, false); }
  // The head too: its loss is added to that of the context.
  void Loss(const Context& context) { Run(context, true); }

 private:
  Tensor Run(const Context& context, bool with_head);

  Backend& backend_;
  Stream stream_;
  const Model& model_;
  Pipeline& pipeline_;
  StageWork& work_;
  Outbox sent_;
};

}  // namespace ftune
