// MILLRACE_BOTH and MILLRACE_UNROLL: marks of functions that CPU and GPU run alike. Without CUDA's compiler
// they are nothing.
#pragma once

#if defined(__CUDACC__)
#define MILLRACE_BOTH __host__ __device__
#define MILLRACE_UNROLL _Pragma("unroll")
#else
#define MILLRACE_BOTH    // a function for the CPU and the GPU
#define MILLRACE_UNROLL  // a loop over registers, which a GPU cannot index
#endif
