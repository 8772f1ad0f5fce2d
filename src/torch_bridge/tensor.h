// torch tensors over millrace's memory, and millrace's view of theirs, as Python objects; libtorch stays behind this header.
//
// All need the GIL. The first two return a new reference to a torch.Tensor on the CPU, dense and row-major, at about 1 us.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "collate/row_gather.h"
#include "core/batch_ring.h"

struct _object;  // PyObject

namespace millrace {

// The tensor lives in the lease's memory; the lease ends when the tensor's last view dies, on whatever thread that is.
// Throws Error(invalid_argument) when the lease is smaller than the sizes need.
_object* tensor_from_lease(Lease lease, const std::vector<int64_t>& sizes, DType type);

// Memory of torch's own; `*data` is where to write, valid while the tensor lives.
_object* new_tensor(const std::vector<int64_t>& sizes, DType type, void** data);

// Where the rows (along the first dimension) of a strided CPU tensor lie at this moment: its owner may resize it or give it other
// memory. `base` is null when its memory ends before its last row does.
RowTable tensor_rows(_object* tensor);

}  // namespace millrace
