// What a person sees of a download from the hub.
#pragma once

#include "base/hub/hub_reporter.h"
#include "cmd/report/progress.h"

namespace ftune {

// On standard error: on a terminal one line that is redrawn, elsewhere a line when it is done.
HubReporter HubProgress(Verbosity verbosity);

}  // namespace ftune
