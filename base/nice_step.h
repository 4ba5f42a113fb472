// Distances between the marks of an axis.
#pragma once

#include <cmath>

namespace ftune {

// 1, 2 or 5 times a power of ten, at least `least`, which is above 0.
inline double NiceStep(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

}  // namespace ftune
