// torch tensors over millrace's memory, as Python objects; libtorch stays behind this header.
//
// Each function returns a new reference to a torch.Tensor on the CPU, dense and row-major, and needs the GIL. Costs about 1 us.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "core/batch_ring.h"

struct _object;  // PyObject

namespace millrace {

// The tensor lives in the lease's memory; the lease ends when the tensor's last view dies, on whatever thread that is.
// Throws Error(invalid_argument) when the lease is smaller than the sizes need.
_object* tensor_from_lease(Lease lease, const std::vector<int64_t>& sizes, DType type);

// Memory of torch's own; `*data` is where to write, valid while the tensor lives.
_object* new_tensor(const std::vector<int64_t>& sizes, DType type, void** data);

}  // namespace millrace
