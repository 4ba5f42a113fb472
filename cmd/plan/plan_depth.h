// How much of a recipe's mesh and step is run dry.
#pragma once

namespace ftune {

enum class PlanDepth {
  kWhole,
  // For a search among many: as few microbatches as have the peak and the time of each further one, of the
  // data axis one rank, and stages between the first and the last are taken to be as the second is.
  kShort,
};

}  // namespace ftune
