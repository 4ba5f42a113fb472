#include "parallel/schedule/action.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "base/strings.h"

namespace ftune {
namespace {

struct Notation {
  std::string_view letters;
  std::string_view torch;  // empty: it has none
};

// In the order of ActionKind.
constexpr std::array<Notation, 11> kNotations = {{{"F", "F"},
                                                  {"BW", "B"},
                                                  {"B", "I"},
                                                  {"W", "W"},
                                                  {"SA", "SEND_F"},
                                                  {"RA", "RECV_F"},
                                                  {"SG", "SEND_B"},
                                                  {"RG", "RECV_B"},
                                                  {"G", "UNSHARD"},
                                                  {"R", "RESHARD"},
                                                  {"D", ""}}};

std::optional<ActionKind> FindKind(std::string_view letters, std::string_view Notation::*member) {
  if (letters.empty()) return std::nullopt;
  for (size_t i = 0; i < kNotations.size(); ++i) {
    if (kNotations[i].*member == letters) return static_cast<ActionKind>(i);
  }
  return std::nullopt;
}

// Takes a number off the front; nothing where there is none, or none that an int holds.
std::optional<int> TakeNumber(std::string_view& text) {
  int number = 0;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(end - text.data());
  return number;
}

std::string_view TakeLetters(std::string_view& text) {
  const auto end =
      std::find_if(text.begin(), text.end(), [](char c) { return (c < 'A' || c > 'Z') && c != '_'; });
  const std::string_view letters = text.substr(0, end - text.begin());
  text.remove_prefix(letters.size());
  return letters;
}

std::optional<Action> Parse(std::string_view text) {
  std::optional<ActionKind> kind;
  std::optional<int> stage = TakeNumber(text);
  const bool torch = stage.has_value();
  kind = FindKind(TakeLetters(text), torch ? &Notation::torch : &Notation::letters);
  if (!torch) stage = TakeNumber(text);
  if (!kind || !stage) return std::nullopt;
  Action action{*kind, *stage, -1};
  if (HasMicrobatch(*kind)) {
    if (!torch) {
      if (text.empty() || text.front() != '.') return std::nullopt;
      text.remove_prefix(1);
    }
    const std::optional<int> microbatch = TakeNumber(text);
    if (!microbatch) return std::nullopt;
    action.microbatch = *microbatch;
  }
  if (!text.empty()) return std::nullopt;
  return action;
}

}  // namespace

bool IsCompute(ActionKind kind) { return kind <= ActionKind::kBackwardWeight; }
bool IsSend(ActionKind kind) {
  return kind == ActionKind::kSendActivation || kind == ActionKind::kSendGradient;
}
bool IsReceive(ActionKind kind) {
  return kind == ActionKind::kReceiveActivation || kind == ActionKind::kReceiveGradient;
}
bool MakesInputGradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}
bool MakesParameterGradients(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}
bool HasMicrobatch(ActionKind kind) { return kind != ActionKind::kGather && kind != ActionKind::kRelease; }

std::string ToString(const Action& action) {
  std::string text = StrCat(kNotations[static_cast<size_t>(action.kind)].letters, action.stage);
  if (HasMicrobatch(action.kind)) StrAppend(text, ".", action.microbatch);
  return text;
}

absl::StatusOr<Action> ParseAction(std::string_view text) {
  const std::optional<Action> action = Parse(text);
  if (action) return *action;
  return DataError({.message = "not an action of a schedule",
                    .found = StrCat("\"", Printable(text, kMostShown), "\""),
                    .expected =
                        "F, B, W, BW, SA, RA, SG, RG or D with stage and microbatch, as F0.3, or G or R "
                        "with a stage, as G0"});
}

}  // namespace ftune
