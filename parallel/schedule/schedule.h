// A step as a list of actions, made by a pure function and executed by the engine's runner.
#pragma once

#include <string>
#include <vector>

namespace ftune {

enum class ActionKind {
  kForward,         // F
  kBackward,        // B and W at once
  kBackwardInput,   // B: the gradient of the stage's input
  kBackwardWeight,  // W: the gradients of its parameters
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  int stage = 0;
  int microbatch = 0;
  bool operator==(const Action&) const = default;
};

// "F0.3": kind, stage, microbatch.
std::string ToString(const Action& action);

// One stage: each microbatch forward, then backward, so that one microbatch's activations live at a time.
std::vector<Action> SingleStageSchedule(int microbatches);

}  // namespace ftune
