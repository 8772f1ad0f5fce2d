// Which instruction sets the SIMD files are compiled for; included before any of Highway's headers.
//
// The kernels keep vectors in structs and arrays, which scalable vectors (SVE, RVV) do not allow: those machines run the NEON
// or the portable version. HWY_EMU128 must stand in where no SIMD is: Highway leaves it out for GCC before 12.3, whose bug 106322
// it suffers from, but its replacement lacks operations we need; the tests run it beside the others. SSSE3 is left out because
// whatever has it and not SSE4 is older than 2008, and each target costs compile time.
#pragma once

#define HWY_BROKEN_EMU128 0
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
