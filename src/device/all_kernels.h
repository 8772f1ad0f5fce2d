// All kernels that launch() is instantiated for. The CPU's loop, CUDA's grid and the build without CUDA
// (src/nocuda) use this list.
#pragma once

#include "device/batch_kernels.h"
#include "device/box_kernels.h"
#include "device/fused_kernels.h"
#include "device/line_kernels.h"
#include "device/number_kernels.h"
#include "device/pass_kernels.h"

#define MILLRACE_FOR_ALL_KERNELS(DO) \
  DO(NormalizeKernel)                \
  DO(FlipKernel)                     \
  DO(AffineKernel)                   \
  DO(ColorKernel)                    \
  DO(EraseKernel)                    \
  DO(MixKernel)                      \
  DO(WeightsKernel)                  \
  DO(FinishKernel)                   \
  DO(PixelKernel)                    \
  DO(MapKernel)                      \
  DO(ResizeKernel)                   \
  DO(BlurKernel)                     \
  DO(TableKernel)                    \
  DO(StoreKernel)                    \
  DO(UploadKernel)                   \
  DO(ClearKernel)                    \
  DO(NoiseKernel)                    \
  DO(EraseBoxKernel)
