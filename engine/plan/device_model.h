// A device in numbers: what there is of it, and what the ops and the calls of a rank on it reach.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "engine/backend/op_work.h"

namespace ftune {

// A call takes `seconds`, and what its flops or its bytes take at their rates, whichever is longer. A rate of
// 0 limits nothing.
struct OpRate {
  double flops = 0.0;    // a second
  double bytes = 0.0;    // a second
  double seconds = 0.0;  // each call
  bool operator==(const OpRate&) const = default;
};

// Of products whose smallest size is this; between two of them the rate is interpolated, in logarithms.
struct ProductRate {
  int64_t smallest = 0;
  double flops = 0.0;  // a second
  bool operator==(const ProductRate&) const = default;
};

// Alpha and beta: a message of so many bytes takes latency + bytes / bandwidth.
struct LinkModel {
  double latency = 0.0;    // seconds
  double bandwidth = 0.0;  // bytes a second that a rank sends, while it receives as many
  bool operator==(const LinkModel&) const = default;
};

struct DeviceModel {
  std::string name;
  int64_t memory = 0;   // bytes of one device, which has one rank
  int per_host = 1;     // devices of a host
  int64_t runtime = 0;  // bytes that a rank has beside the engine's ledger: context, libraries, program
  double fragmentation = 0.0;       // bytes that an allocator cannot use, for each in the ledger
  DType activations = DType::kF32;  // the type of activations
  bool is_cpu = false;              // memory of ranks is that of their host
  std::map<DType, double> peak;     // dense FLOP/s of products by type; what MFU is told of
  std::map<DType, std::vector<ProductRate>> products;  // reached, by the type of the second operand
  std::array<OpRate, kOpClasses> rates;                // for products only bytes and seconds
  LinkModel in_host;                                   // between devices of a host
  LinkModel network;                                   // between hosts
  LinkModel to_host;                                   // between a device and its host's memory
  LinkModel disk;  // of a host: all its ranks share the bandwidth; 0: not known, it takes no time
  bool operator==(const DeviceModel&) const = default;
};

}  // namespace ftune
