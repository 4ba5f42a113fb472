// What the CPU backend computes with on this machine.
#pragma once

#include <string>

namespace ftune {

// The instruction set that ftune's own kernels use here, as Highway calls it: "AVX3", "AVX2", "NEON".
std::string KernelTarget();
// "oneDNN 2.6.0"
std::string MatrixLibrary();

}  // namespace ftune
