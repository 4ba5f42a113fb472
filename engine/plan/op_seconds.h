// How long an op takes on a device: a roofline (Williams et al., "Roofline: an insightful visual performance
// model", 2009) of what its class reaches there.
#pragma once

#include "engine/backend/op_work.h"
#include "engine/plan/device_model.h"

namespace ftune {

double OpSeconds(const DeviceModel& device, const OpWork& work);

// FLOP/s of products whose second operand is of this type and whose smallest size is so much. Of a type that
// the device has no rate for: that of activations, into which weights are converted; 0 where there is none.
double ProductFlops(const DeviceModel& device, DType dtype, int64_t smallest);

}  // namespace ftune
