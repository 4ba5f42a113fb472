// Rates that follow from a data sheet and the shares of it that are reached.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "engine/plan/device_model.h"

namespace ftune {

struct Efficiency {
  double product = 0.0;             // of the peak, where all sizes are large
  double attention = 0.0;           // of the peak of the activations' type
  double attention_backward = 0.0;  // likewise
  double stream = 0.0;              // of the memory's bandwidth: all ops that compute little
};

struct DataSheet {
  std::map<DType, double> peak;     // dense FLOP/s of products
  DType activations = DType::kF32;  // `peak` has it
  double memory_bandwidth = 0.0;    // bytes a second
  double call_seconds = 0.0;        // that the smallest op takes
};

// A product whose smallest size is less than a tile of the matrix units leaves the rest of them idle.
std::map<DType, std::vector<ProductRate>> ProductsOf(const DataSheet& sheet, const Efficiency& reached);
std::array<OpRate, kOpClasses> RatesOf(const DataSheet& sheet, const Efficiency& reached);

}  // namespace ftune
