#include "cmd/train/room_hint.h"

#include <utility>

#include "base/error.h"
#include "base/io_error.h"
#include "base/strings.h"
#include "parallel/comm/status_text.h"

namespace ftune {

absl::Status WithRoomHint(const absl::Status& status, const std::filesystem::path& run) {
  if (!IsDiskFull(status)) return status;
  ErrorDetail detail = *DetailOf(status);
  detail.hint = StrCat("free some space: `ftune checkpoint ls ", run.string(),
                       "` shows what checkpoints take, `ftune checkpoint rm ", run.string(),
                       " --step N` removes one, and a lower checkpoint.keep_last keeps fewer");
  absl::Status hinted = UserError(static_cast<ExitCode>(ExitCodeOf(status)), std::move(detail));
  return WasHeard(status) ? MarkAsHeard(std::move(hinted)) : hinted;
}

}  // namespace ftune
