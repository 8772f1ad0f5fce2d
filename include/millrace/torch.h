// For programs that use libtorch: fields as tensors, page-locked memory for batches, batches on a device.
//
//   for (const millrace::Batch& batch : loader)
//     net->forward(millrace::as_torch(batch["image"]));
//
// Header-only, and millrace.h knows none of it. Link millrace::torch: millrace::millrace with libtorch, 2.11
// or newer.
#pragma once

#include "millrace/device_batch.h"   // IWYU pragma: export
#include "millrace/device_loader.h"  // IWYU pragma: export
#include "millrace/torch_tensor.h"   // IWYU pragma: export
