// Included before Highway by every file that uses it: the instruction sets that kernels are compiled for.
// Between AVX2 and plain C++ nothing is worth its time to build.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
