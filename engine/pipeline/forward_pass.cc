#include "engine/pipeline/forward_pass.h"

#include <utility>

namespace ftune {

Tensor NewRows(Backend& backend, const Model& model, int64_t tokens) {
  return backend.Allocate(model.tensor_axis().OwnRowCount(tokens), model.config().hidden_size,
                          Category::kActivations);
}

Tensor ForwardPass::Run(const Context& context, bool with_head) {
  Tensor x;
  for (const LocalStage& stage : model_.stages()) {
    if (stage.stage > 0 && !pipeline_.Here(stage.stage - 1)) {
      x = NewRows(backend_, model_, context.batch.tokens);
      pipeline_.Receive(stream_, x, stage.stage - 1).Wait().IgnoreError();  // it stays in the link
    }
    if (!pipeline_.status().ok()) return {};
    const bool top = stage.stage + 1 == pipeline_.stages();
    LocalStage run = stage;
    if (top && !with_head) --run.end;
    InFlight unused;
    x = work_.Forward(run, unused, context, std::move(x), {.refresh = with_head});
    if (top) return x;
    if (pipeline_.Here(stage.stage + 1)) continue;
    sent_.Release();
    Pending pending = pipeline_.Send(stream_, x, stage.stage + 1);
    sent_.Put(std::move(x), std::move(pending));
  }
  return {};
}

}  // namespace ftune
