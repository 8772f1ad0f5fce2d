// Which instruction sets the SIMD files are compiled for; included before any of Highway's headers.
//
// On x86 the lowest is SSE4.2 (src/cmake/MillraceFunctions.cmake), so Highway's SSSE3 and portable versions
// are not needed; AES is not used and need not be there. The kernels keep vectors in structs and arrays,
// which scalable vectors (SVE, RVV) do not allow: those machines run the NEON or the portable version.
#pragma once

#define HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
