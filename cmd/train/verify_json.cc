#include "cmd/train/verify_json.h"

namespace ftune {
namespace {

nlohmann::ordered_json MeasureJson(const VerifyMeasure& measure) {
  return {{"name", measure.what}, {"error", measure.error}, {"tolerance", measure.tolerance}};
}

}  // namespace

nlohmann::ordered_json ToJson(const VerifyResult& result) {
  return {{"ok", result.ok()},
          {"worst", MeasureJson(result.worst())},
          {"loss", MeasureJson(result.loss)},
          {"grad_norm", MeasureJson(result.grad_norm)},
          {"gradient", MeasureJson(result.gradient)},
          {"weights", MeasureJson(result.weights)}};
}

}  // namespace ftune
