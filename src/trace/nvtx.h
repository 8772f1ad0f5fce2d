// NVTX as a sink of ranges. In src/cuda, or src/nocuda.
#pragma once

#include "trace/range.h"

namespace millrace::cuda {

const trace::RangeSink* nvtx_sink();  // null in a build without CUDA

}  // namespace millrace::cuda
