// Completes lists of compute actions by what ranks send each other.
#pragma once

#include "parallel/schedule/schedule.h"

namespace ftune {

// A send comes directly after the action that makes what it sends (and that action's kReduce). A receive is
// posted one compute action before the one that uses it, or earlier: a rank's receives from another rank have
// the order of that rank's sends to it, so that sends and receives of an ordered pair of ranks match by their
// order alone. Stages that follow each other on one rank have no transfer, and a stage whose neighbour before
// has no backward sends no gradient. Works before and after PlaceUnits, with the same result. Every compute
// action's producer must be in the lists.
Schedule InsertTransfers(Schedule schedule);

}  // namespace ftune
