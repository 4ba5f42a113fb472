// What a rank does in a step, one action at a time. Ranks here are the pipeline's, counted from 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ftune {

enum class ActionKind : uint8_t {
  kForward,            // F
  kBackward,           // BW: both halves at once
  kBackwardInput,      // B: the gradient of the stage's input
  kBackwardWeight,     // W: the gradients of its parameters
  kSendActivation,     // SA: the stage's output goes to the next stage
  kReceiveActivation,  // RA: its input comes from the stage before
  kSendGradient,       // SG: the gradient of its input goes to the stage before
  kReceiveGradient,    // RG: that of its output comes from the next stage
  kGather,             // G: the stage's ZeRO-3 values are whole from here on
  kRelease,            // R: and no longer
  kReduce,             // D: the gradients of the action before, BW or W, are reduced over the data ranks
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  int stage = 0;
  int microbatch = 0;  // -1 for kGather and kRelease
  bool operator==(const Action&) const = default;
};

bool IsCompute(ActionKind kind);  // F, BW, B, W
bool IsSend(ActionKind kind);     // SA, SG
bool IsReceive(ActionKind kind);  // RA, RG
inline bool IsTransfer(ActionKind kind) { return IsSend(kind) || IsReceive(kind); }
bool MakesInputGradient(ActionKind kind);       // BW, B
bool MakesParameterGradients(ActionKind kind);  // BW, W
bool HasMicrobatch(ActionKind kind);            // all but G, R

// "F0.3": kind, stage, microbatch; "G1": kind, stage.
std::string ToString(const Action& action);

// Reads what ToString writes, and what torch.distributed.pipelining writes in its schedule files: "0F3", with
// I, W, B for B, W, BW and SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD for SA, RA, SG, RG, G, R.
absl::StatusOr<Action> ParseAction(std::string_view text);

}  // namespace ftune
